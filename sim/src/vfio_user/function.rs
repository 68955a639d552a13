//! The PCI function a client sees: what each vfio-user command does to configuration space, BARs, interrupts, memory.
use super::config_space::{self, ConfigSpace};
use super::dma::DmaTable;
use super::engine::Order;
use super::irq::{Vectors, is_eventfd};
use rocenic_contract::{caps::VECTORS, pci, regs};
use rocenic_vfio_user::channel::Message;
use rocenic_vfio_user::message::*;
use rocenic_vfio_user::vfio::*;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, channel};

/// What we tell of ourselves when a client comes.
const CAPABILITIES: &str =
    r#"{"capabilities":{"max_msg_fds":16,"max_data_xfer_size":4096,"max_dma_maps":65535}}"#;
/// Longest access to a BAR: what a processor does at once.
const MAX_BAR_ACCESS: usize = 64;
const WORD: usize = size_of::<u32>();
const LINE: usize = 64;

/// One simulated function.
pub struct Function {
    config: ConfigSpace,
    /// The shell's page in BAR0: MSI-X table and pending bits, which a client in software does not need.
    msix: Vec<u8>,
    pub dma: Arc<DmaTable>,
    pub vectors: Arc<Vectors>,
    pub orders: SyncSender<Order>,
}

/// What a command is answered with.
pub type Answer = Result<Vec<u8>, Errno>;

pub fn short<T>(found: Option<T>) -> Result<T, Errno> {
    found.ok_or(Errno::INVAL)
}

impl Function {
    pub fn new(dma: Arc<DmaTable>, vectors: Arc<Vectors>, orders: SyncSender<Order>) -> Self {
        Function {
            config: ConfigSpace::new(),
            msix: vec![0; regs::PAGE_BYTES as usize],
            dma,
            vectors,
            orders,
        }
    }
    pub fn handle(&mut self, m: Message) -> Answer {
        let mut body = &m.body[..];
        match m.header.command {
            command::VERSION => greet(short(Version::take(&mut body))?),
            command::DMA_MAP => {
                let map = short(DmaMap::take(&mut body))?;
                // memory without a file could only be reached by messages, which we do not send; QEMU announces such
                // regions too, and a device has no business there
                if let Some(fd) = m.fds.first() {
                    self.dma
                        .map(map.address, map.size, fd, map.offset, map.flags)?;
                }
                Ok(vec![])
            }
            command::DMA_UNMAP => {
                let unmap = short(DmaUnmap::take(&mut body))?;
                if unmap.flags & UNMAP_ALL != 0 {
                    self.dma.unmap_all();
                } else {
                    // regions without a file have no window
                    self.dma.unmap(unmap.address, unmap.size);
                }
                Ok(unmap.to_bytes())
            }
            command::GET_INFO => Ok(DeviceInfo {
                argsz: DeviceInfo::BYTES as u32,
                flags: VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET,
                regions: VFIO_PCI_NUM_REGIONS,
                irqs: VFIO_PCI_NUM_IRQS,
            }
            .to_bytes()),
            command::GET_REGION_INFO => {
                let asked = short(RegionInfo::take(&mut body))?;
                if asked.index >= VFIO_PCI_NUM_REGIONS {
                    return Err(Errno::INVAL);
                }
                let size = region_bytes(asked.index);
                let rw = VFIO_REGION_INFO_FLAG_READ | VFIO_REGION_INFO_FLAG_WRITE;
                Ok(RegionInfo {
                    argsz: RegionInfo::BYTES as u32,
                    flags: if size > 0 { rw } else { 0 },
                    index: asked.index,
                    size,
                    ..RegionInfo::default()
                }
                .to_bytes())
            }
            command::GET_IRQ_INFO => {
                let asked = short(IrqInfo::take(&mut body))?;
                if asked.index >= VFIO_PCI_NUM_IRQS {
                    return Err(Errno::INVAL);
                }
                let count = irq_count(asked.index);
                Ok(IrqInfo {
                    argsz: IrqInfo::BYTES as u32,
                    flags: if count > 0 { VFIO_IRQ_INFO_EVENTFD } else { 0 },
                    index: asked.index,
                    count,
                }
                .to_bytes())
            }
            command::SET_IRQS => {
                let set = short(SetIrqs::take(&mut body))?;
                self.set_irqs(set, body, m.fds)?;
                Ok(vec![])
            }
            command::REGION_READ => {
                let a = short(Access::take(&mut body))?;
                let data = self.read(a.region, a.offset, a.count as usize)?;
                let mut to = a.to_bytes();
                to.extend_from_slice(&data);
                Ok(to)
            }
            command::REGION_WRITE => {
                let a = short(Access::take(&mut body))?;
                let data = short(body.get(..a.count as usize))?;
                self.write(a.region, a.offset, data)?;
                Ok(a.to_bytes())
            }
            command::RESET => {
                self.reset()?;
                Ok(vec![])
            }
            _ => Err(Errno::OPNOTSUPP),
        }
    }
    fn order(&self, order: Order) -> Result<(), Errno> {
        self.orders.send(order).map_err(|_| Errno::NODEV)
    }
    /// Function-level reset: the device drains and forgets everything, and may not be bus master any more.
    pub fn reset(&mut self) -> Result<(), Errno> {
        let (done, wait) = channel();
        self.order(Order::Reset(done))?;
        wait.recv().map_err(|_| Errno::NODEV)?;
        self.config = ConfigSpace::new();
        self.msix.fill(0);
        self.set_bus_master(false)
    }
    fn set_bus_master(&self, on: bool) -> Result<(), Errno> {
        self.dma.set_bus_master(on);
        self.order(Order::BusMaster(on))
    }
    fn read(&mut self, region: u32, offset: u64, len: usize) -> Answer {
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            return Ok(short(self.config.read(offset, len))?.to_vec());
        }
        self.check_bar(region, offset, len)?;
        if region != pci::REGISTER_BAR || !self.config.memory_space() {
            // nothing there answers
            return Ok(vec![0xff; len]);
        }
        if let Some(at) = in_msix(offset, len) {
            return Ok(self.msix[at..at + len].to_vec());
        }
        let mut to = vec![];
        let mut at = offset / WORD as u64 * WORD as u64;
        while at < offset + len as u64 {
            let (answer, wait) = channel();
            self.order(Order::Read { addr: at, answer })?;
            let word = wait.recv().map_err(|_| Errno::NODEV)?;
            to.extend_from_slice(&word.to_le_bytes());
            at += WORD as u64;
        }
        let skip = (offset % WORD as u64) as usize;
        Ok(to[skip..skip + len].to_vec())
    }
    fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), Errno> {
        if region == VFIO_PCI_CONFIG_REGION_INDEX {
            let effect = short(self.config.write(offset, data))?;
            if effect.reset {
                return self.reset();
            }
            return effect
                .bus_master
                .map_or(Ok(()), |on| self.set_bus_master(on));
        }
        self.check_bar(region, offset, data.len())?;
        if !self.config.memory_space() {
            return Ok(());
        }
        if region == pci::PUSH_BAR {
            return self.push(offset, data);
        }
        if let Some(at) = in_msix(offset, data.len()) {
            self.msix[at..at + data.len()].copy_from_slice(data);
            return Ok(());
        }
        let (words, rest) = data.as_chunks::<WORD>();
        if !offset.is_multiple_of(WORD as u64) || !rest.is_empty() {
            // the contract: registers are written by aligned 32-bit accesses; anything else has no effect
            tracing::debug!("write of {} bytes at BAR0 {offset:#x} dropped", data.len());
            return Ok(());
        }
        for (i, w) in words.iter().enumerate() {
            self.order(Order::Write {
                addr: offset + (WORD * i) as u64,
                data: u32::from_le_bytes(*w),
            })?;
        }
        Ok(())
    }
    /// A store into the push window: a beat for each 64-byte line it touches.
    fn push(&self, mut offset: u64, mut data: &[u8]) -> Result<(), Errno> {
        while !data.is_empty() {
            let skip = (offset % LINE as u64) as usize;
            let n = data.len().min(LINE - skip);
            let mut bytes = Box::new([0; LINE]);
            bytes[skip..skip + n].copy_from_slice(&data[..n]);
            let strobe = (u64::MAX >> (LINE - n)) << skip;
            self.order(Order::Push {
                addr: offset - skip as u64,
                bytes,
                strobe,
            })?;
            offset += n as u64;
            data = &data[n..];
        }
        Ok(())
    }
    fn check_bar(&self, region: u32, offset: u64, len: usize) -> Result<(), Errno> {
        let size = region_bytes(region);
        let inside = offset
            .checked_add(len as u64)
            .is_some_and(|end| end <= size);
        if inside && (1..=MAX_BAR_ACCESS).contains(&len) {
            Ok(())
        } else {
            Err(Errno::INVAL)
        }
    }
    fn set_irqs(&mut self, set: SetIrqs, data: &[u8], fds: Vec<OwnedFd>) -> Result<(), Errno> {
        let end = set.start.checked_add(set.count).ok_or(Errno::INVAL)?;
        let kind = set.flags & VFIO_IRQ_SET_DATA_TYPE_MASK;
        let trigger = set.flags & VFIO_IRQ_SET_ACTION_TYPE_MASK == VFIO_IRQ_SET_ACTION_TRIGGER;
        if end > irq_count(set.index) || !trigger || !fds.iter().all(is_eventfd) {
            return Err(Errno::INVAL);
        }
        if set.index != VFIO_PCI_MSIX_IRQ_INDEX {
            // errors and requests to let go of the device never come
            return Ok(());
        }
        let vectors = set.start as usize..end as usize;
        match kind {
            VFIO_IRQ_SET_DATA_NONE if set.count == 0 => self.vectors.clear(),
            VFIO_IRQ_SET_DATA_NONE => vectors.for_each(|v| self.vectors.raise(v)),
            VFIO_IRQ_SET_DATA_BOOL => {
                let on = short(data.get(..vectors.len()))?;
                let raised = vectors.zip(on).filter(|(_, on)| **on != 0);
                raised.for_each(|(v, _)| self.vectors.raise(v));
            }
            VFIO_IRQ_SET_DATA_EVENTFD => {
                // no descriptor disconnects
                let mut fds = fds.into_iter();
                vectors.for_each(|v| self.vectors.set(v, fds.next()));
            }
            _ => return Err(Errno::INVAL),
        }
        Ok(())
    }
}

/// Answers `VERSION`.
pub fn greet(theirs: Version) -> Answer {
    if theirs.major != MAJOR {
        return Err(Errno::NOTSUP);
    }
    let minor = theirs.minor.min(MINOR);
    let mut to = Version {
        major: MAJOR,
        minor,
    }
    .to_bytes();
    to.extend_from_slice(CAPABILITIES.as_bytes());
    to.push(0);
    Ok(to)
}

fn region_bytes(region: u32) -> u64 {
    match region {
        pci::REGISTER_BAR => regs::BAR0_BYTES,
        pci::PUSH_BAR => regs::BAR2_BYTES,
        VFIO_PCI_CONFIG_REGION_INDEX => config_space::BYTES as u64,
        _ => 0,
    }
}
fn irq_count(index: u32) -> u32 {
    match index {
        VFIO_PCI_MSIX_IRQ_INDEX => VECTORS as u32,
        VFIO_PCI_ERR_IRQ_INDEX | VFIO_PCI_REQ_IRQ_INDEX => 1,
        _ => 0,
    }
}
/// Place in the MSI-X page of an access that is all inside it.
fn in_msix(offset: u64, len: usize) -> Option<usize> {
    let at = usize::try_from(offset.checked_sub(regs::MSIX_PAGE)?).ok()?;
    (at + len <= regs::PAGE_BYTES as usize).then_some(at)
}
