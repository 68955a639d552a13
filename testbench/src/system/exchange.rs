//! What two host programs tell each other beside the NICs (a socket, in real life): QP numbers, PSNs, addresses, keys.
//!
//! Messages take simulated time. A host program must not block in real time for its peer, whose NIC can only move
//! together with its own; and how long it waits must not depend on which thread is faster. Both hold when a message is
//! stamped with its sender's time and is seen two wire delays later: by then the sender's window is over.
use anyhow::{Result, bail};
use rocenic_driver::Context;
use rocenic_sim::nic::CYCLE_NS;
use rocenic_sim::wire::LinkConfig;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

pub struct Say<T>(Sender<(u64, T)>);
pub struct Hear<T> {
    from: Receiver<(u64, T)>,
    next: Option<(u64, T)>,
    delay: u64,
}

/// One direction between the hosts of a wire.
pub fn exchange<T>(link: &LinkConfig) -> (Say<T>, Hear<T>) {
    let (to, from) = channel();
    (
        Say(to),
        Hear {
            from,
            next: None,
            delay: 2 * link.delay * CYCLE_NS,
        },
    )
}
impl<T> Say<T> {
    pub fn say(&self, c: &Context, v: T) {
        // a peer that has ended hears nothing
        let _ = self.0.send((c.now_ns(), v));
    }
}
impl<T> Hear<T> {
    /// A message that has arrived.
    pub fn poll(&mut self, c: &Context) -> Option<T> {
        if self.next.is_none() {
            self.next = self.from.try_recv().ok();
        }
        // asking for the time costs more than the rest of this
        self.next.as_ref()?;
        let now = c.now_ns();
        match self.next.take() {
            Some((at, v)) if at + self.delay <= now => Some(v),
            other => {
                self.next = other;
                None
            }
        }
    }
    /// Waits for the next message, at most `timeout_ns`.
    pub fn hear(&mut self, c: &Context, timeout_ns: u64) -> Result<T> {
        let end = c.now_ns() + timeout_ns;
        loop {
            let mut gone = false;
            if self.next.is_none() {
                match self.from.try_recv() {
                    Ok(m) => self.next = Some(m),
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Disconnected) => gone = true,
                }
            }
            let now = c.now_ns();
            match self.next.take() {
                Some((at, v)) if at + self.delay <= now => return Ok(v),
                other => self.next = other,
            }
            if gone || now >= end {
                bail!("no word from the peer host within {} us", timeout_ns / 1000);
            }
            c.wait(self.delay)?;
        }
    }
}
