//! Unbounded queue between tasks and agents.
use super::sim::{Inner, Sim, TaskId, Waits};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

struct State<T> {
    items: VecDeque<T>,
    waiters: Vec<TaskId>,
}
/// Clones are handles to the same queue.
pub struct Queue<T> {
    inner: Rc<Inner>,
    name: Rc<str>,
    state: Rc<RefCell<State<T>>>,
}
impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue {
            inner: self.inner.clone(),
            name: self.name.clone(),
            state: self.state.clone(),
        }
    }
}
impl<T> Queue<T> {
    /// `name` appears in the watchdog's report.
    pub fn new(sim: &Sim, name: &str) -> Queue<T> {
        Queue {
            inner: sim.0.clone(),
            name: name.into(),
            state: Rc::new(RefCell::new(State {
                items: VecDeque::new(),
                waiters: vec![],
            })),
        }
    }
    pub fn push(&self, v: T) {
        let mut s = self.state.borrow_mut();
        s.items.push_back(v);
        self.inner.moved();
        for w in s.waiters.drain(..) {
            self.inner.wake(w);
        }
    }
    pub fn try_pop(&self) -> Option<T> {
        let v = self.state.borrow_mut().items.pop_front();
        if v.is_some() {
            self.inner.moved();
        }
        v
    }
    pub fn pop(&self) -> Pop<'_, T> {
        Pop(self)
    }
    pub fn len(&self) -> usize {
        self.state.borrow().items.len()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Waits for an item.
pub struct Pop<'a, T>(&'a Queue<T>);
impl<T> Future for Pop<'_, T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        if let Some(v) = self.0.try_pop() {
            return Poll::Ready(v);
        }
        let id = self.0.inner.waits(Waits::Item(self.0.name.clone()));
        self.0.state.borrow_mut().waiters.push(id);
        Poll::Pending
    }
}
