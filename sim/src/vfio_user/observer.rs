//! A client that only looks: registers of the device, whoever uses it, without changing anything. It has no memory, no
//! interrupts, and does not reset the device when it comes or goes.
use super::config_space::ConfigSpace;
use super::engine::Order;
use super::function::{Answer, greet, short};
use rocenic_contract::{pci, regs};
use rocenic_vfio_user::channel::Message;
use rocenic_vfio_user::message::*;
use rocenic_vfio_user::vfio::VFIO_PCI_CONFIG_REGION_INDEX;
use rustix::io::Errno;
use std::sync::mpsc::{SyncSender, channel};

const WORD: u64 = size_of::<u32>() as u64;
/// Longest look: a 64-bit register.
const LONGEST: u64 = 2 * WORD;

pub struct Observer {
    orders: SyncSender<Order>,
    /// As a function has it after reset.
    config: ConfigSpace,
}

impl Observer {
    pub fn new(orders: SyncSender<Order>) -> Observer {
        Observer {
            orders,
            config: ConfigSpace::new(),
        }
    }
    /// Whether a client's first message says that it only looks.
    pub fn is_greeted(first: &Message) -> bool {
        let text = first.body.get(Version::BYTES..).unwrap_or_default();
        let mut places = text.windows(OBSERVER.len());
        first.header.command == command::VERSION && places.any(|w| w == OBSERVER.as_bytes())
    }
    pub fn handle(&mut self, m: Message) -> Answer {
        let mut body = &m.body[..];
        match m.header.command {
            command::VERSION => greet(short(Version::take(&mut body))?),
            command::REGION_READ => {
                let a = short(Access::take(&mut body))?;
                let mut to = a.to_bytes();
                to.extend(self.read(a)?);
                Ok(to)
            }
            _ => Err(Errno::PERM),
        }
    }
    fn read(&mut self, a: Access) -> Answer {
        let len = u64::from(a.count);
        if a.region == VFIO_PCI_CONFIG_REGION_INDEX {
            return Ok(short(self.config.read(a.offset, len as usize))?.to_vec());
        }
        let end = a.offset.checked_add(len).ok_or(Errno::INVAL)?;
        let words = a.offset.is_multiple_of(WORD) && len.is_multiple_of(WORD);
        let fits = (WORD..=LONGEST).contains(&len) && end <= regs::BAR0_BYTES;
        if a.region != pci::REGISTER_BAR || !words || !fits {
            return Err(Errno::INVAL);
        }
        let addrs: Vec<u64> = (a.offset..end).step_by(WORD as usize).collect();
        let n = addrs.len();
        let (answer, wait) = channel();
        let look = Order::Look { addrs, answer };
        self.orders.send(look).map_err(|_| Errno::NODEV)?;
        let mut to = vec![];
        for word in wait.iter().take(n) {
            to.extend_from_slice(&word.to_le_bytes());
        }
        // a device that stops answers nothing any more
        if to.len() == len as usize {
            Ok(to)
        } else {
            Err(Errno::NODEV)
        }
    }
}
