//! Completions and events for async programs (tokio; feature `async`).
//!
//! A [`Reactor`] sleeps on the device's interrupt and wakes whoever waits for the queue that the event names. Waiting for
//! a completion arms the queue and looks again before it sleeps: what completed between the first look and the arming
//! would raise no event on a device that counts from the arming on, and is found by the second look.
use crate::context::{Context, lock};
use crate::cq::{Cq, WorkCompletion};
use crate::error::{Error, Result};
use crate::event::{DeviceEvent, VECTOR};
use crate::transport::readiness::watch;
use rocenic_contract::eqe::event::Event;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

/// Pause between two looks whether the device is still there: its death raises no interrupt.
const LOOK: Duration = Duration::from_millis(50);

/// Waits for a device's interrupts on a tokio runtime. It takes all of its events: [`Context::poll_event`] and
/// [`Context::wait_event`] find none beside it.
pub struct Reactor {
    shared: Arc<Shared>,
    events: tokio::sync::Mutex<mpsc::UnboundedReceiver<DeviceEvent>>,
    failed: watch::Receiver<Option<Error>>,
    task: JoinHandle<()>,
}

struct Shared {
    context: Context,
    /// By number of the completion queue.
    queues: Mutex<HashMap<u32, Arc<Notify>>>,
}
impl Shared {
    fn queue(&self, number: u32) -> Arc<Notify> {
        lock(&self.queues).entry(number).or_default().clone()
    }
}

impl Reactor {
    /// Must be called on a tokio runtime with I/O and time. An error on a transport without descriptors.
    pub fn new(context: &Context) -> Result<Reactor> {
        Self::moderated(context, Duration::ZERO)
    }
    /// The same with at least this time between two interrupts: what happens meanwhile is told together.
    pub fn moderated(context: &Context, pause: Duration) -> Result<Reactor> {
        let fd = context.inner.transport.interrupt_fd(VECTOR)?;
        let fd = watch(fd).map_err(|e| Error::Runtime(e.to_string()))?;
        let shared = Arc::new(Shared {
            context: context.clone(),
            queues: Mutex::default(),
        });
        let (tell, events) = mpsc::unbounded_channel();
        let (fail, failed) = watch::channel(None);
        let its = shared.clone();
        let task = tokio::spawn(async move {
            if let Err(e) = serve(&its, &fd, &tell, pause).await {
                // nobody waits any more: nobody needs to know
                let _ = fail.send(Some(e));
            }
        });
        Ok(Reactor {
            shared,
            events: tokio::sync::Mutex::new(events),
            failed,
            task,
        })
    }
    /// The next completion of a queue of this device. Dropping the future loses none.
    pub async fn completion(&self, cq: &Cq) -> Result<WorkCompletion> {
        let news = self.shared.queue(cq.number());
        let mut slept = false;
        loop {
            for arm in [false, true] {
                if arm {
                    cq.arm()?;
                }
                if let Some(c) = cq.look()? {
                    if slept {
                        // an event is for everybody who waits, and woke one
                        news.notify_one();
                    }
                    return Ok(c);
                }
            }
            tokio::select! {
                () = news.notified() => slept = true,
                e = self.failure() => return Err(e),
            }
        }
    }
    /// The next event that is no completion.
    pub async fn event(&self) -> Result<DeviceEvent> {
        let mut events = self.events.lock().await;
        tokio::select! {
            Some(e) = events.recv() => Ok(e),
            e = self.failure() => Err(e),
        }
    }
    async fn failure(&self) -> Error {
        let mut failed = self.failed.clone();
        match failed.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(e)) => e.clone(),
            _ => Error::Runtime("the runtime has ended the reactor's task".into()),
        }
    }
}
impl Drop for Reactor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Takes events and wakes, until the device fails.
async fn serve(
    shared: &Shared,
    fd: &AsyncFd<OwnedFd>,
    tell: &mpsc::UnboundedSender<DeviceEvent>,
    pause: Duration,
) -> Result<()> {
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            ready = fd.readable() => {
                let mut ready = ready.map_err(|e| Error::Runtime(e.to_string()))?;
                // taken before the events: an interrupt that comes meanwhile makes it readable again
                if rustix::io::read(fd.get_ref(), &mut [0; size_of::<u64>()]).is_err() {
                    ready.clear_ready();
                }
            }
            _ = look.tick() => shared.context.wait(0)?,
        }
        let events = shared.context.take_events()?;
        if events.is_empty() {
            continue;
        }
        for e in events {
            if e.event == Event::Completion {
                shared.queue(e.number).notify_one();
            } else {
                // nobody may be interested
                let _ = tell.send(e);
            }
        }
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        // what came since then interrupts at once
        shared.context.rearm_events()?;
    }
}
