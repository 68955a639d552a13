//! FNV-1a, 64 bit, over every name, offset, width and value of the contract.
use crate::layout::{Layout, RegPage, Values};

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

const fn byte(h: u64, b: u8) -> u64 {
    (h ^ b as u64).wrapping_mul(PRIME)
}
const fn number(mut h: u64, n: u64) -> u64 {
    let b = n.to_le_bytes();
    let mut i = 0;
    while i < b.len() {
        h = byte(h, b[i]);
        i += 1;
    }
    h
}
const fn text(mut h: u64, s: &str) -> u64 {
    let b = s.as_bytes();
    let mut i = 0;
    while i < b.len() {
        h = byte(h, b[i]);
        i += 1;
    }
    number(h, b.len() as u64)
}
const fn layouts(mut h: u64, list: &[Layout]) -> u64 {
    let mut i = 0;
    while i < list.len() {
        h = text(h, list[i].name);
        h = number(h, list[i].bytes as u64);
        let mut k = 0;
        while k < list[i].fields.len() {
            let f = &list[i].fields[k];
            h = text(h, f.name);
            h = number(number(h, f.offset as u64), f.width as u64);
            k += 1;
        }
        i += 1;
    }
    h
}
const fn values(mut h: u64, list: &[Values]) -> u64 {
    let mut i = 0;
    while i < list.len() {
        h = text(h, list[i].name);
        let mut k = 0;
        while k < list[i].values.len() {
            h = number(text(h, list[i].values[k].name), list[i].values[k].value);
            k += 1;
        }
        i += 1;
    }
    h
}
const fn pages(mut h: u64, list: &[RegPage]) -> u64 {
    let mut i = 0;
    while i < list.len() {
        h = text(h, list[i].name);
        let mut k = 0;
        while k < list[i].regs.len() {
            let r = &list[i].regs[k];
            h = number(number(text(h, r.name), r.addr), r.words);
            k += 1;
        }
        i += 1;
    }
    h
}

/// Hash of the whole contract. Resets and documentation are not in it: they may change without breaking a driver.
pub const LAYOUT_HASH: u64 = {
    let mut h = number(BASIS, crate::VERSION as u64);
    h = layouts(h, &crate::HOST_LAYOUTS);
    h = layouts(h, &crate::cmd::LAYOUTS);
    h = layouts(h, &crate::wire::LAYOUTS);
    h = values(h, &crate::VALUES);
    h = pages(h, &crate::regs::PAGES);
    number(
        number(h, crate::regs::DOORBELL_BASE),
        crate::regs::DOORBELL_PAGES,
    )
};
