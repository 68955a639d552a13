//! Struct and enum types: one package, one typedef a distinct `TypeDescriptor`.
use crate::names::{check_ident, safe};
use rust_hdl_core::prelude::*;

pub fn width(d: &TypeDescriptor) -> usize {
    match &d.kind {
        TypeKind::Bits(w) | TypeKind::Signed(w) => *w,
        TypeKind::Enum(v) => clog2(v.len()),
        TypeKind::Composite(f) => f.iter().map(|f| width(&f.kind)).sum(),
    }
}
pub fn logic(w: usize) -> String {
    if w == 1 {
        "logic".into()
    } else {
        format!("logic [{}:0]", w - 1)
    }
}
pub fn is_clock(d: &TypeDescriptor) -> bool {
    d.name == "clock" && matches!(d.kind, TypeKind::Bits(1))
}
pub fn is_enum(d: &TypeDescriptor) -> bool {
    matches!(d.kind, TypeKind::Enum(_))
}
pub fn same(a: &TypeDescriptor, b: &TypeDescriptor) -> bool {
    format!("{a:?}") == format!("{b:?}")
}
/// Offset (first field is the least significant) and type of a named field.
pub fn field(d: &TypeDescriptor, name: &str) -> Option<(usize, TypeDescriptor)> {
    let TypeKind::Composite(fs) = &d.kind else {
        return None;
    };
    let mut lo = 0;
    for f in fs {
        if f.fieldname == name {
            return Some((lo, f.kind.clone()));
        }
        lo += width(&f.kind);
    }
    None
}
/// `.a.b` for the field that holds bits lo..lo+w, the rest offset in it, and its type.
pub fn field_at(d: &TypeDescriptor, mut lo: usize, w: usize) -> (String, usize, TypeDescriptor) {
    let (mut path, mut d) = (String::new(), d.clone());
    'down: while let TypeKind::Composite(fs) = &d.kind {
        if lo == 0 && w == width(&d) {
            break;
        }
        let mut o = 0;
        for f in fs {
            let fw = width(&f.kind);
            if lo >= o && lo + w <= o + fw {
                path += &format!(".{}", safe(&f.fieldname));
                lo -= o;
                d = f.kind.clone();
                continue 'down;
            }
            o += fw;
        }
        break;
    }
    (path, lo, d)
}

pub struct Types {
    /// `name::` or nothing.
    scope: String,
    defs: Vec<(String, String, String)>, // key, name, text
    pub errors: Vec<String>,
}
impl Types {
    pub fn new(package: Option<&str>) -> Self {
        Types {
            scope: package.map_or(String::new(), |p| format!("{p}::")),
            defs: vec![],
            errors: vec![],
        }
    }
    pub fn decl(&mut self, d: &TypeDescriptor) -> String {
        match d.kind {
            TypeKind::Bits(w) | TypeKind::Signed(w) => logic(w),
            _ => {
                let n = self.name(d);
                format!("{}{n}", self.scope)
            }
        }
    }
    pub fn label(&mut self, d: &TypeDescriptor, variant: &str) -> String {
        let n = self.name(d);
        format!("{}{n}_{variant}", self.scope)
    }
    /// The label of an enum's variant by its code.
    pub fn label_of(&mut self, d: &TypeDescriptor, code: usize) -> String {
        let TypeKind::Enum(vs) = &d.kind else {
            unreachable!("only enums have labels")
        };
        let variant = vs[code].rsplit("::").next().unwrap_or(&vs[code]).to_owned();
        self.label(d, &variant)
    }
    fn name(&mut self, d: &TypeDescriptor) -> String {
        let key = format!("{d:?}");
        if let Some(x) = self.defs.iter().find(|x| x.0 == key) {
            return x.1.clone();
        }
        let mut name: String = d
            .name
            .chars()
            .map(|c| if c.is_alphanumeric() { c } else { '_' })
            .collect();
        let n = self
            .defs
            .iter()
            .filter(|x| x.1 == name || x.1.starts_with(&format!("{name}__")))
            .count();
        if n > 0 {
            name = format!("{name}__{}", n + 1);
        } // same Rust name, other content
        if let Err(e) = check_ident(&name) {
            self.errors.push(e);
        }
        let text = match &d.kind {
            TypeKind::Enum(vs) => {
                let (w, n) = (width(d), vs.len());
                let mut t = format!("  typedef enum logic [{}:0] {{\n", w.max(1) - 1);
                if w == 0 {
                    self.errors
                        .push(format!("enum {name} has one variant, so no bits"));
                }
                for (i, v) in vs.iter().enumerate() {
                    let v = v.rsplit("::").next().expect("variant");
                    t += &format!(
                        "    {name}_{v} = {w}'d{i}{}\n",
                        if i + 1 < n { "," } else { "" }
                    );
                }
                t + &format!("  }} {name};\n")
            }
            TypeKind::Composite(fs) => {
                let mut t = String::from("  typedef struct packed {\n");
                for f in fs.iter().rev() {
                    if let Err(e) = check_ident(&safe(&f.fieldname)) {
                        self.errors.push(format!("struct {name}: {e}"));
                    }
                    let ft = match f.kind.kind {
                        TypeKind::Bits(w) | TypeKind::Signed(w) => logic(w),
                        _ => self.name(&f.kind),
                    };
                    t += &format!("    {ft} {};\n", safe(&f.fieldname));
                }
                t + &format!("  }} {name};\n")
            }
            _ => unreachable!("plain vectors have no name"),
        };
        self.defs.push((key, name.clone(), text));
        name
    }
    pub fn text(&self) -> Option<String> {
        let body = self
            .defs
            .iter()
            .map(|d| d.2.as_str())
            .collect::<Vec<_>>()
            .join("\n");
        match self.scope.strip_suffix("::") {
            _ if body.is_empty() => None,
            Some(p) => Some(format!("package {p};\n{body}endpackage\n")),
            None => Some(body),
        }
    }
}
