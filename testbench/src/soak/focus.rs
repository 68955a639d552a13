//! What an episode is about.
use super::STATES;
use super::plan::Kind;
use rocenic_contract::cmd::qp_state::QpState;
use rocenic_contract::opcode::{self, Class};

/// What an episode is about, when it is to fill bins: frames of an opcode that come to queue pairs in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Focus {
    pub opcode: u8,
    pub state: QpState,
    /// Receivers are to be not ready.
    pub starve: bool,
}
impl std::fmt::Display for Focus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let starve = if self.starve { ":starve" } else { "" };
        write!(f, "{:#04x}:{}{starve}", self.opcode, self.state)
    }
}
impl std::str::FromStr for Focus {
    type Err = String;
    fn from_str(s: &str) -> Result<Focus, String> {
        let wrong = || format!("{s} is no focus: OPCODE:STATE or OPCODE:STATE:starve, as 0x04:RTS");
        let mut parts = s.split(':');
        let opcode = parts.next().and_then(|o| o.strip_prefix("0x"));
        let opcode = opcode.and_then(|o| u8::from_str_radix(o, 16).ok());
        let state = parts.next().unwrap_or_default();
        let state = STATES.into_iter().find(|q| q.to_string() == state);
        let starve = match parts.next() {
            None => false,
            Some("starve") => true,
            Some(_) => return Err(wrong()),
        };
        Ok(Focus {
            opcode: opcode.ok_or_else(wrong)?,
            state: state.ok_or_else(wrong)?,
            starve,
        })
    }
}
impl Focus {
    /// How often messages of a kind come; others are rare.
    pub fn weight(&self, k: Kind, usual: u64) -> u64 {
        let Some(o) = opcode::info(self.opcode) else {
            return usual;
        };
        let wanted = match o.class {
            Class::Send => k == Kind::Send,
            Class::Write | Class::Ack => k == Kind::Write,
            Class::ReadRequest | Class::ReadResponse => k == Kind::Read,
            Class::CompareSwap => matches!(k, Kind::CompareSwap(..)),
            Class::FetchAdd => matches!(k, Kind::FetchAdd(_)),
            Class::AtomicAck => matches!(k, Kind::CompareSwap(..) | Kind::FetchAdd(_)),
            Class::Cnp => false,
        };
        if wanted { 12 } else { 1 }
    }
}
