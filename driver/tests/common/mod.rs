//! A model of the register interface only, for tests of the driver's own logic (ring wrap, phases, error paths). It moves
//! no data and is no device: tests of the two together run the RTL.
use rocenic_contract::cmd::{
    create_cq::CreateCq, create_eq::CreateEq, create_qp::CreateQp, opcode::Command,
};
use rocenic_contract::cqe::{self, Cqe};
use rocenic_contract::eqe::{self, Eqe};
use rocenic_contract::regs::{
    cmd_go::CmdGo, cmd_status::CmdStatus, control, doorbell, doorbell_page, limits::Limits,
    mailbox, queue_doorbell::QueueDoorbell, request_limits::RequestLimits,
};
use rocenic_contract::rqe::{self, Rqe};
use rocenic_contract::wqe::{self, Wqe};
use rocenic_contract::{LAYOUT_HASH, VERSION, caps};
use rocenic_driver::transport::in_process::{Device, DmaSpace, InProcess};
use rocenic_driver::*;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
pub struct State {
    regs: HashMap<u64, u32>,
    pub commands: Vec<(Command, Vec<u8>)>,
    pub doorbells: Vec<(u64, QueueDoorbell)>,
    pub pushes: Vec<(u64, [u8; 64])>,
    /// Status the next commands get instead of OK.
    pub refuse: HashMap<u8, u8>,
    /// Commands that are never answered.
    pub hang: bool,
    pub cqs: HashMap<u32, (CreateCq, u32)>,
    pub eq: Option<(CreateEq, u32)>,
    pub qps: HashMap<u32, CreateQp>,
}

pub struct RegisterModel {
    pub state: Mutex<State>,
    pub memory: Arc<DmaSpace>,
    now: AtomicU64,
}

impl RegisterModel {
    pub fn new() -> Arc<Self> {
        let limits = Limits {
            log2_qps: 10,
            log2_cqs: 10,
            log2_mrs: 12,
            log2_eqs: 3,
            log2_outstanding: 7,
            log2_ring: 15,
            log2_rd_atomic: 4,
        };
        let can = caps::SEND
            | caps::WRITE
            | caps::IMMEDIATE
            | caps::INLINE
            | caps::PUSH
            | caps::RC
            | caps::IPV4;
        let request = RequestLimits {
            send_sges: 2,
            recv_sges: 4,
            inline: 32,
            reserved: 0,
        }
        .to_bytes();
        let mut state = State::default();
        for (addr, value) in [
            (control::MAGIC, rocenic_contract::regs::MAGIC_VALUE),
            (control::VERSION, VERSION),
            (control::LAYOUT_HASH_LO, LAYOUT_HASH as u32),
            (control::LAYOUT_HASH_HI, (LAYOUT_HASH >> 32) as u32),
            (control::CAPS, can as u32),
            (control::LIMITS, u32::from_le_bytes(limits.to_bytes())),
            (control::REQUEST_LIMITS, u32::from_le_bytes(request)),
            (control::MAX_MSG, caps::MAX_MSG_BYTES as u32),
            (control::CLOCK_KHZ, caps::CLOCK_KHZ as u32),
            (control::STATUS, 1),
        ] {
            state.regs.insert(addr, value);
        }
        Arc::new(RegisterModel {
            state: Mutex::new(state),
            memory: DmaSpace::new(1 << 30),
            now: AtomicU64::new(0),
        })
    }
    pub fn transport(self: &Arc<Self>) -> Arc<dyn Transport> {
        Arc::new(InProcess::new(self.clone(), self.memory.clone()))
    }
    pub fn set(&self, addr: u64, value: u32) {
        self.state.lock().unwrap().regs.insert(addr, value);
    }
    pub fn last_doorbell(&self) -> (u64, QueueDoorbell) {
        *self
            .state
            .lock()
            .unwrap()
            .doorbells
            .last()
            .expect("a doorbell")
    }
    pub fn wqe(&self, qpn: u32, slot: u16) -> Wqe {
        let mut b = [0; wqe::BYTES];
        let base = self.state.lock().unwrap().qps[&qpn].sq_iova;
        self.memory
            .read(base + slot as u64 * b.len() as u64, &mut b)
            .unwrap();
        Wqe::from_bytes(&b)
    }
    pub fn rqe(&self, qpn: u32, slot: u16) -> Rqe {
        let mut b = [0; rqe::BYTES];
        let base = self.state.lock().unwrap().qps[&qpn].rq_iova;
        self.memory
            .read(base + slot as u64 * b.len() as u64, &mut b)
            .unwrap();
        Rqe::from_bytes(&b)
    }
    /// Writes the next CQE of a queue, with the right phase.
    pub fn complete(&self, cqn: u32, c: Cqe) {
        let mut s = self.state.lock().unwrap();
        let (q, n) = s.cqs.get_mut(&cqn).unwrap();
        let phase = 1 - (*n >> q.log2_size & 1) as u8;
        let slot = *n & ((1 << q.log2_size) - 1);
        let at = q.base_iova + slot as u64 * cqe::BYTES as u64;
        *n += 1;
        self.memory
            .write(at, &Cqe { phase, ..c }.to_bytes())
            .unwrap();
    }
    pub fn event(&self, e: Eqe) {
        let mut s = self.state.lock().unwrap();
        let (q, n) = s.eq.as_mut().unwrap();
        let phase = 1 - (*n >> q.log2_size & 1) as u8;
        let slot = *n & ((1 << q.log2_size) - 1);
        let at = q.base_iova + slot as u64 * eqe::BYTES as u64;
        *n += 1;
        self.memory
            .write(at, &Eqe { phase, ..e }.to_bytes())
            .unwrap();
    }
}

impl Device for RegisterModel {
    fn read32(&self, addr: u64) -> std::result::Result<u32, TransportError> {
        Ok(self
            .state
            .lock()
            .unwrap()
            .regs
            .get(&addr)
            .copied()
            .unwrap_or(0))
    }
    fn write32(&self, addr: u64, value: u32) -> std::result::Result<(), TransportError> {
        let mut s = self.state.lock().unwrap();
        if addr >= doorbell_page(0) {
            s.doorbells.push((
                addr - doorbell_page(0),
                QueueDoorbell::from_bytes(&value.to_le_bytes()),
            ));
            return Ok(());
        }
        s.regs.insert(addr, value);
        if addr != mailbox::CMD_GO {
            return Ok(());
        }
        let go = CmdGo::from_bytes(&value.to_le_bytes());
        let word = |i: u64| s.regs.get(&(mailbox::CMD_IN + 4 * i)).copied().unwrap_or(0);
        let input: Vec<u8> = (0..32).flat_map(|i| word(i).to_le_bytes()).collect();
        let command = Command::from_number(go.opcode).expect("a command of the contract");
        let status = s.refuse.get(&go.opcode).copied().unwrap_or(0);
        if status == 0 {
            match command {
                Command::CreateCq => {
                    let c = CreateCq::read(&input).unwrap();
                    s.cqs.insert(c.cqn as u32, (c, 0));
                }
                Command::CreateEq => s.eq = Some((CreateEq::read(&input).unwrap(), 0)),
                Command::CreateQp => {
                    let c = CreateQp::read(&input).unwrap();
                    s.qps.insert(c.qpn, c);
                }
                _ => {}
            }
        }
        s.commands.push((command, input));
        if !s.hang {
            let done = CmdStatus {
                status,
                token: go.token,
                busy: 0,
                reserved: 0,
            };
            s.regs
                .insert(mailbox::CMD_STATUS, u32::from_le_bytes(done.to_bytes()));
        }
        Ok(())
    }
    fn push(&self, addr: u64, bytes: &[u8; 64]) -> std::result::Result<(), TransportError> {
        self.state.lock().unwrap().pushes.push((addr, *bytes));
        Ok(())
    }
    fn now_ns(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }
    fn wait(&self, ns: u64) -> std::result::Result<(), TransportError> {
        self.now.fetch_add(ns.max(4), Ordering::Relaxed);
        Ok(())
    }
    fn take_interrupt(&self, _: u16) -> bool {
        false
    }
}

/// An open device with a connected queue pair of the given depth, all on one CQ of 64 entries.
pub struct Side {
    pub model: Arc<RegisterModel>,
    pub ctx: Context,
    pub pd: Pd,
    pub cq: Cq,
    pub qp: Qp<Rts>,
}

pub fn side(depth: u32) -> Side {
    side_of(RegisterModel::new(), depth)
}

pub fn side_of(model: Arc<RegisterModel>, depth: u32) -> Side {
    side_with(model.clone(), model, depth, 64)
}

/// The same; the driver reaches the model through `device`.
pub fn side_with(
    model: Arc<RegisterModel>,
    device: Arc<dyn Device>,
    depth: u32,
    cq_entries: u32,
) -> Side {
    let transport = InProcess::new(device, model.memory.clone());
    let ctx = Context::open(Arc::new(transport)).unwrap();
    let mac = [2, 0, 0, 0, 0, 1];
    ctx.set_port(Port {
        mac,
        ipv4: [10, 0, 0, 1].into(),
        pmtu: Pmtu::Mtu1024,
    })
    .unwrap();
    let pd = ctx.alloc_pd().unwrap();
    let cq = ctx.create_cq(cq_entries).unwrap();
    let qp = pd
        .qp(&cq, &cq)
        .send_depth(depth)
        .recv_depth(depth)
        .build()
        .unwrap();
    let peer = Endpoint {
        qpn: 7,
        psn: 9,
        mac: [2, 0, 0, 0, 0, 2],
        ipv4: [10, 0, 0, 2].into(),
    };
    let qp = qp.init().unwrap().connect(&Connection::to(peer)).unwrap();
    Side {
        model,
        ctx,
        pd,
        cq,
        qp,
    }
}

/// A successful send completion.
pub fn sent(qpn: u32, wqe_index: u16) -> Cqe {
    Cqe {
        qpn,
        wqe_index,
        opcode: CqeOpcode::Send.number(),
        ..Default::default()
    }
}

pub const SQ: u64 = doorbell::SQ;
