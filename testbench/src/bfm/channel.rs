//! The valid/ready channel between blocks: `x_valid`, `x_ready`, and the data `x` (or `x_data`), a RustHDL type.
use super::{Agent, Pause};
use crate::exec::{Pop, Queue};
use crate::{Dut, Random, Value, value};
use rocenic_sim::verilate::{AnyPort, UintPort};
use rust_hdl_core::prelude::Synth;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::rc::Rc;

struct Pins {
    name: String,
    valid: UintPort,
    /// Channels without back-pressure have none.
    ready: Option<UintPort>,
    data: AnyPort,
}
impl Pins {
    #[track_caller]
    fn find<T: Synth>(dut: &mut Dut, name: &str) -> Pins {
        let ready = format!("{name}_ready");
        let ready = dut.has_port(&ready).then(|| dut.pin(&ready));
        let data = [name.to_owned(), format!("{name}_data")];
        let data = data.iter().find(|n| dut.has_port(n)).unwrap_or(&data[0]);
        let data = dut.model().any_port(data).unwrap_or_else(|e| panic!("{e}"));
        let valid = dut.pin(&format!("{name}_valid"));
        assert_eq!(
            data.width(),
            T::BITS,
            "channel `{name}`: width of the port against the type"
        );
        Pins {
            name: name.into(),
            valid,
            ready,
            data,
        }
    }
    fn ready(&self) -> bool {
        self.ready.as_ref().is_none_or(|r| r.high())
    }
}

/// Handle of a driver of a channel.
pub struct ChannelSource<T> {
    queue: Queue<Vec<u64>>,
    pause: Rc<RefCell<Pause>>,
    taken: Rc<RefCell<u64>>,
    of: PhantomData<fn(T)>,
}
impl<T: Synth> ChannelSource<T> {
    #[track_caller]
    pub fn connect(dut: &mut Dut, name: &str, pause: Pause) -> (impl Agent + use<T>, Self) {
        let pins = Pins::find::<T>(dut, name);
        let handle = ChannelSource {
            queue: Queue::new(&dut.sim(), name),
            pause: Rc::new(RefCell::new(pause)),
            taken: Default::default(),
            of: PhantomData,
        };
        let driver = Driver {
            queue: handle.queue.clone(),
            pause: handle.pause.clone(),
            taken: handle.taken.clone(),
            noise: dut.random(name),
            pins,
            live: false,
            accepted: false,
        };
        (driver, handle)
    }
    /// Queues a value.
    pub fn send(&self, v: &T) {
        self.queue.push(value::pack(v));
    }
    /// Queues the bits of a value as little-endian words: for many wide values, which RustHDL packs slowly.
    pub fn send_words(&self, words: Vec<u64>) {
        self.queue.push(words);
    }
    /// Values the block has taken.
    pub fn taken(&self) -> u64 {
        *self.taken.borrow()
    }
    /// Values queued and not yet offered.
    pub fn pending(&self) -> usize {
        self.queue.len()
    }
    pub fn set_pause(&self, p: Pause) {
        *self.pause.borrow_mut() = p;
    }
}

struct Driver {
    pins: Pins,
    queue: Queue<Vec<u64>>,
    pause: Rc<RefCell<Pause>>,
    taken: Rc<RefCell<u64>>,
    noise: Random,
    live: bool,
    accepted: bool,
}
impl Agent for Driver {
    fn sample(&mut self, _: u64) {
        self.accepted = self.live && self.pins.ready();
    }
    fn drive(&mut self, _: u64) {
        if std::mem::take(&mut self.accepted) {
            self.live = false;
            *self.taken.borrow_mut() += 1;
        }
        if self.live {
            return;
        }
        let next = if self.pause.borrow_mut().paused() {
            None
        } else {
            self.queue.try_pop()
        };
        self.live = next.is_some();
        self.pins.valid.set(u64::from(self.live));
        let words = next.unwrap_or_else(|| {
            let n = self.pins.data.width().div_ceil(64);
            (0..n).map(|_| self.noise.next_u64()).collect()
        });
        self.pins.data.set(&words);
    }
    fn status(&self) -> String {
        let p = &self.pins;
        format!(
            "source `{}`: {} queued, valid {}, ready {}",
            p.name,
            self.queue.len(),
            p.valid.get(),
            u8::from(p.ready())
        )
    }
}

/// Handle of a receiver of a channel.
pub struct ChannelSink<T> {
    queue: Queue<Value<T>>,
    pause: Rc<RefCell<Pause>>,
}
impl<T: Synth> ChannelSink<T> {
    #[track_caller]
    pub fn connect(dut: &mut Dut, name: &str, pause: Pause) -> (impl Agent + use<T>, Self) {
        let pins = Pins::find::<T>(dut, name);
        let handle = ChannelSink {
            queue: Queue::new(&dut.sim(), name),
            pause: Rc::new(RefCell::new(pause)),
        };
        let monitor = Monitor {
            queue: handle.queue.clone(),
            pause: handle.pause.clone(),
            pins,
            offered: None,
        };
        (monitor, handle)
    }
    /// Waits for a value.
    pub fn recv(&self) -> Pop<'_, Value<T>> {
        self.queue.pop()
    }
    pub fn try_recv(&self) -> Option<Value<T>> {
        self.queue.try_pop()
    }
    pub fn len(&self) -> usize {
        self.queue.len()
    }
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
    pub fn set_pause(&self, p: Pause) {
        *self.pause.borrow_mut() = p;
    }
}

struct Monitor<T> {
    pins: Pins,
    queue: Queue<Value<T>>,
    pause: Rc<RefCell<Pause>>,
    /// What stood there, not taken, in the cycle before.
    offered: Option<Vec<u64>>,
}
impl<T: Synth> Agent for Monitor<T> {
    fn sample(&mut self, cycle: u64) {
        let p = &self.pins;
        let valid = p.valid.high();
        let data = if valid { p.data.get() } else { vec![] };
        if let Some(before) = self.offered.take() {
            assert!(
                valid,
                "cycle {cycle}: `{}_valid` fell before `ready`",
                p.name
            );
            let (was, is) = (
                Value::<T>::new(before, cycle),
                Value::<T>::new(data.clone(), cycle),
            );
            assert!(
                was.words() == is.words(),
                "cycle {cycle}: `{}` changed before `ready`: {was:?}, then {is:?}",
                p.name
            );
        }
        if valid && p.ready() {
            self.queue.push(Value::new(data, cycle));
        } else if valid {
            self.offered = Some(data);
        }
    }
    fn drive(&mut self, _: u64) {
        if let Some(r) = &self.pins.ready {
            r.set(u64::from(!self.pause.borrow_mut().paused()));
        }
    }
    fn status(&self) -> String {
        let p = &self.pins;
        format!(
            "sink `{}`: valid {}, ready {}",
            p.name,
            p.valid.get(),
            u8::from(p.ready())
        )
    }
}
