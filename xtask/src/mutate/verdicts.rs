//! What a run found, kept for the next one.
use super::suites::tests_of;
use crate::netlist::Tree;
use crate::workspace::root;
use anyhow::Context;
use emit::Place;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

#[derive(Clone, Debug)]
pub enum Verdict {
    /// By this test.
    Killed(String),
    Survived,
    /// Nothing that could be tested.
    Void(String),
    /// It makes no difference to these modules, which is proved.
    Equivalent(String),
}
impl Verdict {
    pub fn text(&self) -> String {
        match self {
            Verdict::Killed(by) => format!("killed by {by}"),
            Verdict::Survived => "survived".into(),
            Verdict::Void(why) => format!("void: {why}"),
            Verdict::Equivalent(modules) => format!("equivalent in {modules}"),
        }
    }
    /// Whether it is one of those that were asked for.
    pub fn counts(&self) -> bool {
        matches!(self, Verdict::Killed(_) | Verdict::Survived)
    }
    fn parse(s: &str) -> Option<Self> {
        if s == "survived" {
            Some(Verdict::Survived)
        } else if let Some(by) = s.strip_prefix("killed by ") {
            Some(Verdict::Killed(by.to_owned()))
        } else if let Some(modules) = s.strip_prefix("equivalent in ") {
            Some(Verdict::Equivalent(modules.to_owned()))
        } else {
            Some(Verdict::Void(s.strip_prefix("void: ")?.to_owned()))
        }
    }
}

/// Verdicts by mutant.
pub struct Kept<'a> {
    pub dir: PathBuf,
    tree: Tree<'a>,
    design: String,
}
impl<'a> Kept<'a> {
    pub fn new(plain: &'a emit::Design) -> anyhow::Result<Self> {
        let dir = root().join("target/mutate");
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let texts: Vec<&str> = plain.modules.iter().map(|m| m.1.as_str()).collect();
        Ok(Kept {
            dir,
            tree: Tree::new(plain),
            design: hash(&texts),
        })
    }
    /// What a verdict hangs on: the modules of the block whose tests gave it, or all.
    fn key(&self, p: &Place, v: &Verdict) -> String {
        let Verdict::Killed(by) = v else {
            return self.design.clone();
        };
        let suite = tests_of(p).filter(|s| s.2.iter().any(|f| by.starts_with(f)));
        let Some((top, _)) = suite.and_then(|s| self.tree.text.get_key_value(s.0)) else {
            return self.design.clone();
        };
        let below = self.tree.below(top);
        let texts: Vec<&str> = below.iter().map(|m| self.tree.text[m]).collect();
        hash(&texts)
    }
    pub fn put(&self, p: &Place, v: &Verdict) -> anyhow::Result<()> {
        let line = format!("{} {}", self.key(p, v), v.text());
        Ok(fs::write(self.dir.join(p.mutant.to_string()), line)?)
    }
    pub fn get(&self, p: &Place) -> Option<Verdict> {
        let line = fs::read_to_string(self.dir.join(p.mutant.to_string())).ok()?;
        let (key, text) = line.split_once(' ')?;
        Verdict::parse(text).filter(|v| self.key(p, v) == key)
    }
    /// Where it is noted that no proof was found.
    pub fn unproved(&self, p: &Place) -> PathBuf {
        self.dir
            .join(format!("{}-{}.unproved", self.design, p.mutant))
    }
}

pub fn hash(parts: &[&str]) -> String {
    let mut h = Sha256::new();
    for p in parts {
        h.update(p.as_bytes());
        h.update([0]);
    }
    h.finalize()[..8]
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect()
}
