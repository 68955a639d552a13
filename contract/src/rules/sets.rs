//! Sets of opcode classes, transports and states that the rules name.
use crate::cmd::qp_state::QpState;
use crate::cmd::transport::QpTransport;
use crate::opcode::Class;

/// A class in a set.
pub const fn class_bit(c: Class) -> u16 {
    1 << c as u16
}
pub const SEND: u16 = class_bit(Class::Send);
pub const WRITE: u16 = class_bit(Class::Write);
pub const READ: u16 = class_bit(Class::ReadRequest);
pub const ATOMIC: u16 = class_bit(Class::CompareSwap) | class_bit(Class::FetchAdd);
pub const REQUEST: u16 = SEND | WRITE | READ | ATOMIC;
pub const READ_RESPONSE: u16 = class_bit(Class::ReadResponse);
pub const DATA_RESPONSE: u16 = READ_RESPONSE | class_bit(Class::AtomicAck);
pub const RESPONSE: u16 = DATA_RESPONSE | class_bit(Class::Ack);
pub const CNP: u16 = class_bit(Class::Cnp);
pub const ANY_CLASS: u16 = REQUEST | RESPONSE | CNP;
pub const RC: u8 = 1 << QpTransport::Rc as u8;
pub const UC: u8 = 1 << QpTransport::Uc as u8;
pub const UD: u8 = 1 << QpTransport::Ud as u8;
pub const ANY_TRANSPORT: u8 = RC | UC | UD;
const fn states(list: &[QpState]) -> u8 {
    let (mut s, mut i) = (0, 0);
    while i < list.len() {
        s |= 1 << list[i] as u8;
        i += 1;
    }
    s
}
pub const ANY_STATE: u8 = states(QpState::ALL);
pub const DEAD: u8 = states(&[QpState::Reset, QpState::Init, QpState::Error]);
pub const RECEIVING: u8 = ANY_STATE & !DEAD;
pub const SENDING: u8 = states(&[QpState::Rts, QpState::Sqd]);
pub const ERROR: u8 = states(&[QpState::Error]);
