//! Tasks, timers, time, and the account of who waits for what.
use super::edge::{Clock, Edges};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Write;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Picoseconds.
pub type Time = u64;
type Boxed = Pin<Box<dyn Future<Output = ()>>>;
pub(super) type TaskId = u32;
/// The future given to `block_on` is no entry of the task table.
const MAIN: TaskId = u32::MAX;

struct Task {
    name: Rc<str>,
    /// None while it runs.
    future: Option<Boxed>,
    waits: Waits,
}

/// What a task waits for, for the watchdog's report.
#[derive(Clone)]
pub(super) enum Waits {
    Start,
    Rising,
    Falling,
    Until(Time),
    Item(Rc<str>),
    Task(Rc<str>),
}

pub(super) struct Inner {
    pub now: Cell<Time>,
    pub current: Cell<TaskId>,
    pub ready: RefCell<VecDeque<TaskId>>,
    /// Queue traffic and finished tasks: what the watchdog calls movement.
    pub progress: Cell<u64>,
    pub edges: Edges,
    tasks: RefCell<Vec<Option<Task>>>,
    free: RefCell<Vec<TaskId>>,
    main_waits: RefCell<Waits>,
    timers: RefCell<BinaryHeap<Reverse<(Time, u64)>>>,
    /// Timers that somebody still waits for.
    live: RefCell<BTreeMap<u64, TaskId>>,
    sequence: Cell<u64>,
}

impl Inner {
    pub fn wake(&self, id: TaskId) {
        self.ready.borrow_mut().push_back(id);
    }
    pub fn moved(&self) {
        self.progress.set(self.progress.get() + 1);
    }
    /// Notes what the current task waits for; returns its id.
    pub fn waits(&self, what: Waits) -> TaskId {
        let id = self.current.get();
        if id == MAIN {
            *self.main_waits.borrow_mut() = what;
        } else if let Some(Some(t)) = self.tasks.borrow_mut().get_mut(id as usize) {
            t.waits = what;
        }
        id
    }
}

/// The executor; clones are handles to the same one.
#[derive(Clone)]
pub struct Sim(pub(super) Rc<Inner>);

impl Default for Sim {
    fn default() -> Self {
        Sim::new()
    }
}

impl Sim {
    pub fn new() -> Sim {
        Sim(Rc::new(Inner {
            now: Cell::new(0),
            current: Cell::new(MAIN),
            ready: Default::default(),
            progress: Cell::new(0),
            edges: Default::default(),
            tasks: Default::default(),
            free: Default::default(),
            main_waits: RefCell::new(Waits::Start),
            timers: Default::default(),
            live: Default::default(),
            sequence: Cell::new(0),
        }))
    }

    pub fn now(&self) -> Time {
        self.0.now.get()
    }

    pub fn clock(&self) -> Clock {
        Clock::new(self.0.clone())
    }

    /// Starts a task; it first runs in the next phase in which tasks run. Dropping the handle does not stop it.
    pub fn spawn<T: 'static>(&self, name: &str, f: impl Future<Output = T> + 'static) -> Join<T> {
        let name: Rc<str> = name.into();
        let join = Rc::new(JoinState {
            value: RefCell::new(None),
            waiter: Cell::new(None),
            name: name.clone(),
            inner: self.0.clone(),
        });
        let state = join.clone();
        let future: Boxed = Box::pin(async move {
            let v = f.await;
            *state.value.borrow_mut() = Some(v);
            state.inner.moved();
            if let Some(w) = state.waiter.take() {
                state.inner.wake(w);
            }
        });
        let task = Some(Task {
            name,
            future: Some(future),
            waits: Waits::Start,
        });
        let mut tasks = self.0.tasks.borrow_mut();
        let id = match self.0.free.borrow_mut().pop() {
            Some(id) => {
                tasks[id as usize] = task;
                id
            }
            None => {
                tasks.push(task);
                (tasks.len() - 1) as TaskId
            }
        };
        self.0.wake(id);
        Join(join)
    }

    pub fn sleep(&self, d: Time) -> Sleep {
        Sleep {
            inner: self.0.clone(),
            at: self.now() + d,
            timer: None,
        }
    }

    /// None when `f` took longer than `d`.
    pub async fn timeout<T>(&self, d: Time, f: impl Future<Output = T>) -> Option<T> {
        match select(f, self.sleep(d)).await {
            Either::Left(v) => Some(v),
            Either::Right(()) => None,
        }
    }

    /// Polls what is ready, also what becomes ready on the way. `main` is polled when it is woken.
    pub(crate) fn run_ready<F: Future>(&self, main: &mut Option<Pin<&mut F>>) -> Option<F::Output> {
        let i = &*self.0;
        let mut cx = Context::from_waker(Waker::noop());
        loop {
            let id = i.ready.borrow_mut().pop_front()?;
            i.current.set(id);
            if id == MAIN {
                if let Some(f) = main
                    && let Poll::Ready(v) = f.as_mut().poll(&mut cx)
                {
                    i.moved();
                    return Some(v);
                }
                continue;
            }
            let slot = |t: &mut Option<Task>| t.as_mut().and_then(|t| t.future.take());
            let Some(mut f) = i.tasks.borrow_mut().get_mut(id as usize).and_then(slot) else {
                continue;
            };
            let done = f.as_mut().poll(&mut cx).is_ready();
            let mut tasks = i.tasks.borrow_mut();
            if done {
                tasks[id as usize] = None;
                i.free.borrow_mut().push(id);
            } else if let Some(t) = &mut tasks[id as usize] {
                t.future = Some(f);
            }
        }
    }

    /// Makes the future given to `run_ready` run for the first time.
    pub(crate) fn start_main(&self) {
        *self.0.main_waits.borrow_mut() = Waits::Start;
        self.0.wake(MAIN);
    }

    /// Moves time on and wakes the timers that are due.
    pub(crate) fn advance(&self, to: Time) {
        self.0.now.set(to);
        while self.next_timer().is_some_and(|at| at <= to) {
            let due = self.0.timers.borrow_mut().pop();
            if let Some(Reverse((_, n))) = due
                && let Some(id) = self.0.live.borrow_mut().remove(&n)
            {
                self.0.wake(id);
            }
        }
    }

    /// When the first live timer is due.
    pub fn next_timer(&self) -> Option<Time> {
        let mut heap = self.0.timers.borrow_mut();
        let live = self.0.live.borrow();
        while let Some(Reverse((at, n))) = heap.peek() {
            if live.contains_key(n) {
                return Some(*at);
            }
            heap.pop();
        }
        None
    }

    pub(crate) fn rising(&self) {
        self.0.edges.rise(&self.0);
    }
    pub(crate) fn falling(&self) {
        self.0.edges.fall(&self.0);
    }
    pub(crate) fn progress(&self) -> u64 {
        self.0.progress.get()
    }

    /// Every task and what it waits for.
    pub fn report(&self) -> String {
        let mut out = String::new();
        let mut line = |name: &str, w: &Waits| {
            let _ = match w {
                Waits::Start => writeln!(out, "  {name}: not started"),
                Waits::Rising => writeln!(out, "  {name}: waits for a rising edge"),
                Waits::Falling => writeln!(out, "  {name}: waits for a falling edge"),
                Waits::Until(t) => writeln!(out, "  {name}: sleeps until {t} ps"),
                Waits::Item(q) => writeln!(out, "  {name}: waits for an item of `{q}`"),
                Waits::Task(t) => writeln!(out, "  {name}: waits for task `{t}`"),
            };
        };
        line("test", &self.0.main_waits.borrow());
        for t in self.0.tasks.borrow().iter().flatten() {
            line(&t.name, &t.waits);
        }
        out
    }
}

/// Waits for a time.
pub struct Sleep {
    inner: Rc<Inner>,
    at: Time,
    timer: Option<u64>,
}
impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.inner.now.get() >= self.at {
            return Poll::Ready(());
        }
        let id = self.inner.waits(Waits::Until(self.at));
        if self.timer.is_none() {
            let n = self.inner.sequence.get();
            self.inner.sequence.set(n + 1);
            self.inner.timers.borrow_mut().push(Reverse((self.at, n)));
            self.inner.live.borrow_mut().insert(n, id);
            self.timer = Some(n);
        }
        Poll::Pending
    }
}
impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(n) = self.timer else { return };
        let mut live = self.inner.live.borrow_mut();
        live.remove(&n);
        // a test may arm and drop a timeout every cycle: do not keep their heap entries until they are due
        let mut heap = self.inner.timers.borrow_mut();
        if heap.len() > 2 * live.len() + 256 {
            heap.retain(|Reverse((_, n))| live.contains_key(n));
        }
    }
}

struct JoinState<T> {
    value: RefCell<Option<T>>,
    waiter: Cell<Option<TaskId>>,
    name: Rc<str>,
    inner: Rc<Inner>,
}
/// A spawned task; awaiting it gives its value.
pub struct Join<T>(Rc<JoinState<T>>);
impl<T> Join<T> {
    pub fn done(&self) -> bool {
        self.0.value.borrow().is_some()
    }
}
impl<T> Future for Join<T> {
    type Output = T;
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
        if let Some(v) = self.0.value.borrow_mut().take() {
            return Poll::Ready(v);
        }
        let id = self.0.inner.waits(Waits::Task(self.0.name.clone()));
        self.0.waiter.set(Some(id));
        Poll::Pending
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Either<A, B> {
    Left(A),
    Right(B),
}
/// The first of two; the other is dropped. Left wins when both are ready.
pub async fn select<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> Either<A, B> {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    std::future::poll_fn(|cx| {
        if let Poll::Ready(v) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(v));
        }
        b.as_mut().poll(cx).map(Either::Right)
    })
    .await
}
