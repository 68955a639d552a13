//! Who has which QPN, CQN, region number.
use crate::error::{Error, Result};
use std::collections::{HashSet, VecDeque};

/// Numbers `first..limit`. A number that was given back is the last to be given out again.
pub(crate) struct Numbers {
    what: &'static str,
    next: u32,
    limit: u32,
    free: VecDeque<u32>,
    taken: HashSet<u32>,
}

impl Numbers {
    pub fn new(what: &'static str, first: u32, limit: u32) -> Self {
        Numbers {
            what,
            next: first,
            limit,
            free: VecDeque::new(),
            taken: HashSet::new(),
        }
    }
    pub fn take(&mut self) -> Result<u32> {
        while self.next < self.limit {
            let n = self.next;
            self.next += 1;
            if self.taken.insert(n) {
                return Ok(n);
            }
        }
        while let Some(n) = self.free.pop_front() {
            if self.taken.insert(n) {
                return Ok(n);
            }
        }
        Err(Error::Exhausted {
            what: self.what,
            limit: self.limit,
        })
    }
    pub fn take_this(&mut self, n: u32) -> Result<u32> {
        if n >= self.limit {
            let allowed = format!("the device has {}", self.limit);
            return Err(Error::Argument {
                what: self.what,
                value: n as u64,
                allowed,
            });
        }
        if self.taken.insert(n) {
            Ok(n)
        } else {
            Err(Error::Taken {
                what: self.what,
                number: n,
            })
        }
    }
    pub fn give_back(&mut self, n: u32) {
        if self.taken.remove(&n) {
            self.free.push_back(n);
        }
    }
}
