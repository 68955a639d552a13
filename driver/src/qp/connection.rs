//! Who to connect to, and how.
use crate::error::{Error, Result};
use crate::mr::Access;
use rocenic_contract::caps::{self, pmtu::Pmtu};
use rocenic_contract::{syndrome, wire};
use std::net::Ipv4Addr;

/// What the other side must know to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub qpn: u32,
    /// First PSN it sends.
    pub psn: u32,
    pub mac: [u8; 6],
    pub ipv4: Ipv4Addr,
}

/// How to connect.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub(super) remote: Endpoint,
    pub(super) pmtu: Option<Pmtu>,
    pub(super) access: Access,
    pub(super) pkey: u16,
    pub(super) ttl: u8,
    pub(super) tos: u8,
    pub(super) udp_sport: Option<u16>,
    pub(super) timeout: u8,
    pub(super) retries: u8,
    pub(super) rnr_retries: u8,
    pub(super) min_rnr_timer: u8,
    pub(super) rd_atomic: Option<u8>,
}

impl Connection {
    /// To this endpoint.
    pub fn to(remote: Endpoint) -> Self {
        Connection {
            remote,
            pmtu: None,
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            pkey: caps::DEFAULT_PKEY,
            ttl: 64,
            tos: 0,
            udp_sport: None,
            timeout: 14,
            retries: caps::MAX_RETRY,
            rnr_retries: caps::MAX_RETRY,
            min_rnr_timer: 12,
            rd_atomic: None,
        }
    }
    /// Path MTU; the port's otherwise.
    pub fn pmtu(mut self, pmtu: Pmtu) -> Self {
        self.pmtu = Some(pmtu);
        self
    }
    /// What the other side's requests may do (everything that the regions allow).
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }
    pub fn pkey(mut self, pkey: u16) -> Self {
        self.pkey = pkey;
        self
    }
    /// IP time to live (64).
    pub fn ttl(mut self, ttl: u8) -> Self {
        self.ttl = ttl;
        self
    }
    /// IP differentiated services, six bits (0).
    pub fn dscp(mut self, dscp: u8) -> Self {
        self.tos = dscp << wire::ip::v4::ECN.width;
        self
    }
    /// UDP source port; derived from both QPNs otherwise.
    pub fn udp_sport(mut self, port: u16) -> Self {
        self.udp_sport = Some(port);
        self
    }
    /// ACK timeout, 4.096 µs · 2^code; 0 waits for ever (14: 67 ms).
    pub fn timeout(mut self, code: u8) -> Self {
        self.timeout = code;
        self
    }
    /// Retries after timeouts and sequence errors, up to 7 (7).
    pub fn retries(mut self, n: u8) -> Self {
        self.retries = n;
        self
    }
    /// Retries when the receiver is not ready; 7 is without end (7).
    pub fn rnr_retries(mut self, n: u8) -> Self {
        self.rnr_retries = n;
        self
    }
    /// Code of the time a sender waits when this side is not ready (12: 0.64 ms).
    pub fn min_rnr_timer(mut self, code: u8) -> Self {
        self.min_rnr_timer = code;
        self
    }
    /// READs and atomics outstanding, each way (what the device can).
    pub fn rd_atomic(mut self, n: u8) -> Self {
        self.rd_atomic = Some(n);
        self
    }
    pub(super) fn check(&self) -> Result<()> {
        let limit = |what, value: u8, max: u8| {
            if value > max {
                let allowed = format!("0 to {max}");
                return Err(Error::Argument {
                    what,
                    value: value as u64,
                    allowed,
                });
            }
            Ok(())
        };
        limit("ACK timeout code", self.timeout, caps::MAX_TIMEOUT)?;
        limit("retries", self.retries, caps::MAX_RETRY)?;
        limit("RNR retries", self.rnr_retries, caps::MAX_RETRY)?;
        limit(
            "RNR timer code",
            self.min_rnr_timer,
            syndrome::RNR_TIMER_10US.len() as u8 - 1,
        )
    }
    /// Flows of RoCEv2 are told apart by their UDP source port, from the dynamic range.
    pub(super) fn sport(&self, qpn: u32) -> u16 {
        /// First port of the dynamic range (RFC 6335).
        const DYNAMIC: u16 = 0xc000;
        let mix = qpn.wrapping_mul(self.remote.qpn.wrapping_add(1));
        self.udp_sport.unwrap_or(DYNAMIC | (mix ^ mix >> 16) as u16)
    }
}
