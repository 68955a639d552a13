//! The BTH opcode table: everything that depends on the opcode alone. Header lengths are sums over the header layouts.
use crate::layout::{Value, Values};
use crate::wire::{aeth, atomic, bth, cnp, deth, ieth, imm, reth};

/// Transport, the upper three bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram: never taken, no opcode of it is in the table.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification.
    Cnp = 4,
    /// Extended reliable connection: never taken, no opcode of it is in the table.
    Xrc = 5,
}
/// Bits of the opcode below the transport.
pub const TRANSPORT_SHIFT: usize = 5;

/// What the packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Send,
    Write,
    ReadRequest,
    ReadResponse,
    Ack,
    AtomicAck,
    CompareSwap,
    FetchAdd,
    Cnp,
}

/// Place in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    First,
    Middle,
    Last,
    Only,
}

/// Who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

/// Headers behind the BTH, as a set of bits in wire order (lowest bit first on the wire).
pub mod header {
    pub const DETH: u16 = 1 << 0;
    pub const RETH: u16 = 1 << 1;
    pub const ATOMIC_ETH: u16 = 1 << 2;
    pub const AETH: u16 = 1 << 3;
    pub const ATOMIC_ACK_ETH: u16 = 1 << 4;
    pub const IMM: u16 = 1 << 5;
    pub const IETH: u16 = 1 << 6;
    pub const CNP: u16 = 1 << 7;
}

/// Bits, name and length of each header that can follow the BTH, in wire order.
pub const HEADERS: [(u16, &str, usize); 8] = [
    (header::DETH, "DETH", deth::BYTES),
    (header::RETH, "RETH", reth::BYTES),
    (header::ATOMIC_ETH, "AtomicETH", atomic::eth::BYTES),
    (header::AETH, "AETH", aeth::BYTES),
    (header::ATOMIC_ACK_ETH, "AtomicAckETH", atomic::ack::BYTES),
    (header::IMM, "ImmDt", imm::BYTES),
    (header::IETH, "IETH", ieth::BYTES),
    (header::CNP, "CNP reserved", cnp::BYTES),
];

/// Length of a set of headers.
pub const fn headers_bytes(set: u16) -> usize {
    let (mut i, mut n) = (0, 0);
    while i < HEADERS.len() {
        if set & HEADERS[i].0 != 0 {
            n += HEADERS[i].2;
        }
        i += 1;
    }
    n
}

/// What payload a packet may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None.
    None,
    /// Exactly the PMTU, no pad.
    Full,
    /// One byte to the PMTU.
    Tail,
    /// Nothing to the PMTU.
    Any,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// For example `RC_WRITE_LAST_IMM`.
    pub name: &'static str,
    pub code: u8,
    pub transport: Transport,
    pub class: Class,
    pub position: Position,
    pub direction: Direction,
    /// `header` bits.
    pub headers: u16,
    /// Offset of a header from the beginning of the BTH is found by `header_offset`; this is the length of BTH and all
    /// headers: where the payload begins.
    pub header_bytes: usize,
    pub payload: Payload,
    /// Takes a receive WQE from the queue.
    pub needs_rqe: bool,
    /// Finishes the receive WQE: a receive completion follows.
    pub completes_rqe: bool,
    pub immediate: bool,
    pub invalidate: bool,
}

impl OpcodeInfo {
    /// The pad count may be other than 0.
    pub const fn pad_allowed(&self) -> bool {
        matches!(self.payload, Payload::Tail | Payload::Any)
    }
    pub const fn has(&self, header: u16) -> bool {
        self.headers & header != 0
    }
    pub const fn starts(&self) -> bool {
        matches!(self.position, Position::First | Position::Only)
    }
    pub const fn ends(&self) -> bool {
        matches!(self.position, Position::Last | Position::Only)
    }
    /// Offset of a header from the beginning of the BTH (meaningful when the packet has it).
    pub const fn header_offset(&self, header: u16) -> usize {
        bth::BYTES + headers_bytes(self.headers & (header - 1))
    }
    /// Smallest and largest payload for a PMTU in bytes.
    pub const fn payload_range(&self, pmtu: usize) -> (usize, usize) {
        match self.payload {
            Payload::None => (0, 0),
            Payload::Full => (pmtu, pmtu),
            Payload::Tail => (1, pmtu),
            Payload::Any => (0, pmtu),
        }
    }
}

macro_rules! opcodes {
    ($( $up:ident = $tr:ident $low:literal $class:ident $pos:ident [$($h:ident)*] ; )*) => {
        $( pub const $up: u64 = (Transport::$tr as u64) << TRANSPORT_SHIFT | $low; )*
        /// The same numbers as `usize`.
        pub mod index { $( pub const $up: usize = super::$up as usize; )* }
        /// Number of defined opcodes.
        pub const COUNT: usize = [$($up),*].len();
        /// Every defined opcode, by number.
        pub const LIST: [OpcodeInfo; COUNT] = [$( row(stringify!($up), $up as u8, Transport::$tr, Class::$class, Position::$pos, 0 $(| header::$h)*) ),*];
        /// The opcodes as named numbers.
        pub const VALUES: Values = Values { name: "BthOpcode", doc: "BTH opcodes.", source: "IBTA 9.2, table 38; Annex A17 (CNP)", values: &[$( Value { name: stringify!($up), value: $up, doc: "" } ),*] };
    };
}

const fn row(
    name: &'static str,
    code: u8,
    transport: Transport,
    class: Class,
    position: Position,
    headers: u16,
) -> OpcodeInfo {
    let immediate = headers & header::IMM != 0;
    let direction = match class {
        Class::ReadResponse | Class::Ack | Class::AtomicAck | Class::Cnp => Direction::Response,
        _ => Direction::Request,
    };
    let payload = match (class, position) {
        (Class::Send | Class::Write | Class::ReadResponse, Position::First | Position::Middle) => {
            Payload::Full
        }
        (Class::Send | Class::Write | Class::ReadResponse, Position::Last) => Payload::Tail,
        (Class::Send | Class::Write | Class::ReadResponse, Position::Only) => Payload::Any,
        _ => Payload::None,
    };
    let starts = matches!(position, Position::First | Position::Only);
    let ends = matches!(position, Position::Last | Position::Only);
    let send = matches!(class, Class::Send);
    let write_imm = matches!(class, Class::Write) && immediate;
    OpcodeInfo {
        name,
        code,
        transport,
        class,
        position,
        direction,
        headers,
        header_bytes: bth::BYTES + headers_bytes(headers),
        payload,
        needs_rqe: send && starts || write_imm,
        completes_rqe: send && ends || write_imm,
        immediate,
        invalidate: headers & header::IETH != 0,
    }
}

opcodes! {
    RC_SEND_FIRST = Rc 0x00 Send First [];
    RC_SEND_MIDDLE = Rc 0x01 Send Middle [];
    RC_SEND_LAST = Rc 0x02 Send Last [];
    RC_SEND_LAST_IMM = Rc 0x03 Send Last [IMM];
    RC_SEND_ONLY = Rc 0x04 Send Only [];
    RC_SEND_ONLY_IMM = Rc 0x05 Send Only [IMM];
    RC_WRITE_FIRST = Rc 0x06 Write First [RETH];
    RC_WRITE_MIDDLE = Rc 0x07 Write Middle [];
    RC_WRITE_LAST = Rc 0x08 Write Last [];
    RC_WRITE_LAST_IMM = Rc 0x09 Write Last [IMM];
    RC_WRITE_ONLY = Rc 0x0a Write Only [RETH];
    RC_WRITE_ONLY_IMM = Rc 0x0b Write Only [RETH IMM];
    RC_READ_REQ = Rc 0x0c ReadRequest Only [RETH];
    RC_READ_RESP_FIRST = Rc 0x0d ReadResponse First [AETH];
    RC_READ_RESP_MIDDLE = Rc 0x0e ReadResponse Middle [];
    RC_READ_RESP_LAST = Rc 0x0f ReadResponse Last [AETH];
    RC_READ_RESP_ONLY = Rc 0x10 ReadResponse Only [AETH];
    RC_ACK = Rc 0x11 Ack Only [AETH];
    RC_ATOMIC_ACK = Rc 0x12 AtomicAck Only [AETH ATOMIC_ACK_ETH];
    RC_CMP_SWAP = Rc 0x13 CompareSwap Only [ATOMIC_ETH];
    RC_FETCH_ADD = Rc 0x14 FetchAdd Only [ATOMIC_ETH];
    RC_SEND_LAST_INV = Rc 0x16 Send Last [IETH];
    RC_SEND_ONLY_INV = Rc 0x17 Send Only [IETH];
    UC_SEND_FIRST = Uc 0x00 Send First [];
    UC_SEND_MIDDLE = Uc 0x01 Send Middle [];
    UC_SEND_LAST = Uc 0x02 Send Last [];
    UC_SEND_LAST_IMM = Uc 0x03 Send Last [IMM];
    UC_SEND_ONLY = Uc 0x04 Send Only [];
    UC_SEND_ONLY_IMM = Uc 0x05 Send Only [IMM];
    UC_WRITE_FIRST = Uc 0x06 Write First [RETH];
    UC_WRITE_MIDDLE = Uc 0x07 Write Middle [];
    UC_WRITE_LAST = Uc 0x08 Write Last [];
    UC_WRITE_LAST_IMM = Uc 0x09 Write Last [IMM];
    UC_WRITE_ONLY = Uc 0x0a Write Only [RETH];
    UC_WRITE_ONLY_IMM = Uc 0x0b Write Only [RETH IMM];
    UD_SEND_ONLY = Ud 0x04 Send Only [DETH];
    UD_SEND_ONLY_IMM = Ud 0x05 Send Only [DETH IMM];
    CNP = Cnp 0x01 Cnp Only [CNP];
}

/// Row of an opcode; `None` when it is undefined or of a transport that is never taken (RD, XRC).
pub const fn info(code: u8) -> Option<&'static OpcodeInfo> {
    const ROWS: &[OpcodeInfo; COUNT] = &LIST;
    let mut i = 0;
    while i < COUNT {
        if ROWS[i].code == code {
            return Some(&ROWS[i]);
        }
        i += 1;
    }
    None
}

/// Longest set of headers from the beginning of the BTH.
pub const MAX_HEADER_BYTES: usize = {
    let (mut i, mut n) = (0, 0);
    while i < COUNT {
        if LIST[i].header_bytes > n {
            n = LIST[i].header_bytes;
        }
        i += 1;
    }
    n
};
