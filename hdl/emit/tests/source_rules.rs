//! Rules on the sources under `hdl/` that the compiler does not check.
use std::path::{Path, PathBuf};

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for e in std::fs::read_dir(dir).unwrap() {
        let p = e.unwrap().path();
        if p.is_dir() {
            sources(&p, out);
        } else if p.extension().is_some_and(|x| x == "rs") {
            out.push(p);
        }
    }
}

/// The stock macro drops match guards, the `=` of `..=` and widths before any back end can see them;
/// the `rust-hdl` facade would bring it back in.
#[test]
fn no_block_uses_the_stock_front_end() {
    let hdl = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = vec![];
    sources(hdl, &mut files);
    assert!(files.len() > 10, "sources found under {}", hdl.display());
    // spelt in two parts, so that this file passes its own check
    let refused = [concat!("hdl", "_gen"), concat!("use rust_hdl", "::")];
    let mut bad = vec![];
    for f in files {
        let text = std::fs::read_to_string(&f).unwrap();
        for (n, l) in text.lines().enumerate() {
            for r in refused.iter().filter(|r| l.contains(**r)) {
                bad.push(format!(
                    "{}:{}: `{r}`: use `#[rtl]` and `rust_hdl_core`",
                    f.display(),
                    n + 1
                ));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// The library of the blocks is not compiled as a test: a unit test in it would never run.
#[test]
fn no_block_file_holds_a_unit_test() {
    let hdl = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = vec![];
    sources(&hdl.join("src"), &mut files);
    let has = |f: &PathBuf| std::fs::read_to_string(f).unwrap().contains("#[cfg(test)]");
    files.retain(has);
    assert!(
        files.is_empty(),
        "move these unit tests to hdl/tests or testbench/tests: {files:?}"
    );
}
