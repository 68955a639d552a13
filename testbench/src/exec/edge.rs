//! Clock edges as triggers. A future compares a counter, so it may be polled at any time.
use super::sim::{Inner, TaskId, Waits};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

#[derive(Default)]
struct Edge {
    count: Cell<u64>,
    waiters: RefCell<Vec<TaskId>>,
}
impl Edge {
    fn fire(&self, inner: &Inner) {
        self.count.set(self.count.get() + 1);
        inner
            .ready
            .borrow_mut()
            .extend(self.waiters.borrow_mut().drain(..));
    }
}
#[derive(Default)]
pub(super) struct Edges {
    rising: Edge,
    falling: Edge,
}
impl Edges {
    pub fn rise(&self, inner: &Inner) {
        self.rising.fire(inner);
    }
    pub fn fall(&self, inner: &Inner) {
        self.falling.fire(inner);
    }
}

/// The clock as tasks see it.
#[derive(Clone)]
pub struct Clock(Rc<Inner>);
impl Clock {
    pub(super) fn new(inner: Rc<Inner>) -> Clock {
        Clock(inner)
    }
    pub fn rising_edge(&self) -> EdgeFuture<'_> {
        self.after(true, 1)
    }
    pub fn falling_edge(&self) -> EdgeFuture<'_> {
        self.after(false, 1)
    }
    /// `n` rising edges from now.
    pub fn cycles(&self, n: u64) -> EdgeFuture<'_> {
        self.after(true, n)
    }
    /// Rising edges so far.
    pub fn count(&self) -> u64 {
        self.0.edges.rising.count.get()
    }
    fn after(&self, rising: bool, n: u64) -> EdgeFuture<'_> {
        let e = &self.0.edges;
        let edge = if rising { &e.rising } else { &e.falling };
        EdgeFuture {
            inner: &self.0,
            edge,
            rising,
            until: edge.count.get() + n,
        }
    }
}

pub struct EdgeFuture<'a> {
    inner: &'a Inner,
    edge: &'a Edge,
    rising: bool,
    until: u64,
}
impl Future for EdgeFuture<'_> {
    type Output = ();
    #[inline]
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.edge.count.get() >= self.until {
            return Poll::Ready(());
        }
        let waits = if self.rising {
            Waits::Rising
        } else {
            Waits::Falling
        };
        let id = self.inner.waits(waits);
        let mut w = self.edge.waiters.borrow_mut();
        // both sides of a `select` may wait for the same edge
        if w.last() != Some(&id) {
            w.push(id);
        }
        Poll::Pending
    }
}
