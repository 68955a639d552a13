//! BAR0: registers, command mailbox, counters, doorbell pages. 32-bit AXI4-Lite, little-endian.
//!
//! Register constants are byte addresses inside BAR0; those of [`doorbell`] are byte offsets inside a doorbell page.
//! Constants in the `index` modules are word numbers (address / 4) inside the page, for RTL patterns.
use crate::layout::{Layout, RegPage, layout};

/// Size of BAR0.
pub const BAR0_BYTES: u64 = doorbell_page(DOORBELL_PAGES);
/// Size of BAR2, the push window: page i belongs to doorbell page i.
pub const BAR2_BYTES: u64 = DOORBELL_PAGES * PAGE_BYTES;
/// Size of every page: identity and control, mailbox, counters, each doorbell page.
pub const PAGE_BYTES: u64 = 0x1000;
/// First doorbell page.
pub const DOORBELL_BASE: u64 = 0x10_0000;
/// Number of doorbell pages.
pub const DOORBELL_PAGES: u64 = 256;
/// Page left to the PCIe shell's MSI-X table and pending bits.
pub const MSIX_PAGE: u64 = 0x3000;
/// Address of doorbell page `i` in BAR0.
pub const fn doorbell_page(i: u64) -> u64 {
    DOORBELL_BASE + i * PAGE_BYTES
}
/// Address of the push window of doorbell page `i` in BAR2. Any 64-byte aligned address in the page takes a WQE.
pub const fn push_page(i: u64) -> u64 {
    i * PAGE_BYTES
}
/// What `MAGIC` reads: "ROCE" in ASCII, 'R' in the lowest byte.
pub const MAGIC_VALUE: u32 = u32::from_le_bytes(*b"ROCE");

/// Whether reading this register latches the one behind it: the low halves of 64-bit registers.
pub const fn latches(addr: u64) -> bool {
    let counters = crate::counters::BASE;
    let counter = addr >= counters
        && addr < counters + crate::counters::COUNTER_BYTES * crate::counters::COUNT as u64
        && (addr - counters).is_multiple_of(crate::counters::COUNTER_BYTES);
    counter || addr == control::CYCLES_LO
}

crate::layout::registers! {
    /// Identity and control.
    control at 0x0000;
    /// Always `MAGIC_VALUE`: tells a driver that this is a Rocenic device.
    MAGIC: RO = crate::regs::MAGIC_VALUE as u64;
    /// Version of the contract: major 31:16, minor 15:0.
    VERSION: RO = crate::VERSION as u64;
    /// Low half of `LAYOUT_HASH`; the driver refuses a device whose hash differs from its own.
    LAYOUT_HASH_LO: RO = 0;
    /// High half of `LAYOUT_HASH`.
    LAYOUT_HASH_HI: RO = 0;
    /// Capability bits (`caps`): what this build of the device does.
    CAPS: RO = 0;
    /// Sizes as powers of two, layout `Limits`.
    LIMITS: RO = 0;
    /// Number of MSI-X vectors the device can ask for.
    VECTORS: RO = 0;
    /// Longest message in bytes.
    MAX_MSG: RO = crate::caps::MAX_MSG_BYTES;
    /// Frequency of `clk` in kHz; timers and CQE time stamps count its cycles.
    CLOCK_KHZ: RO = crate::caps::CLOCK_KHZ;
    /// Enable bits, layout `Ctrl`.
    CTRL: RW = 0;
    /// Layout `Status`.
    STATUS: RO = 0;
    /// Port MAC address, bytes 2 to 5 of the address as a number (set by SET_PORT).
    PORT_MAC_LO: RO = 0;
    /// Port MAC address, bytes 0 to 1 of the address as a number.
    PORT_MAC_HI: RO = 0;
    /// Port IPv4 address as a number.
    PORT_IPV4: RO = 0;
    /// Largest PMTU of the port as a code (`caps::pmtu`).
    PORT_PMTU: RO = 0;
    /// Cycle counter, low half; reading it latches the high half.
    CYCLES_LO: RO = 0;
    /// Cycle counter, high half as latched by the last read of the low half.
    CYCLES_HI: RO = 0;
    /// What a work request may hold, layout `RequestLimits`.
    REQUEST_LIMITS: RO = 0;
}

crate::layout::registers! {
    /// Command mailbox: write CMD_IN, write CMD_GO, read CMD_STATUS until not busy, read CMD_OUT.
    mailbox at 0x1000;
    /// Command input, one of the layouts in `cmd`.
    CMD_IN[32]: RW = 0;
    /// Writing starts the command, layout `CmdGo`; ignored while one is busy.
    CMD_GO: WO = 0;
    /// Layout `CmdStatus`.
    CMD_STATUS: RO = 0;
    /// Zero.
    RESERVED[14]: RO = 0;
    /// Command output, valid when CMD_STATUS shows the command's token, not busy and OK.
    CMD_OUT[16]: RO = 0;
}

crate::layout::registers! {
    /// One doorbell page; offsets inside the page. A doorbell is one aligned 32-bit write.
    doorbell at 0x0000;
    /// New producer index of a send queue, layout `QueueDoorbell`.
    SQ: WO = 0;
    /// New producer index of a receive queue, layout `QueueDoorbell`.
    RQ: WO = 0;
    /// Consumer index of a completion queue, layout `QueueDoorbell`.
    CQ_CI: WO = 0;
    /// Consumer index, and arm: one event at the next completion, at once if there are newer ones.
    CQ_ARM: WO = 0;
    /// As CQ_ARM, for solicited completions and errors only.
    CQ_ARM_SOLICITED: WO = 0;
    /// Consumer index of an event queue and arm it, layout `QueueDoorbell`.
    EQ_CI: WO = 0;
    /// Limit of a shared receive queue, layout `QueueDoorbell`: one event when fewer WQEs are left; 0 is no limit.
    SRQ_LIMIT: WO = 0;
}

/// Registers that have fields, and their layouts.
pub const FIELDS: [(u64, Layout); 6] = [
    (control::LIMITS, limits::LAYOUT),
    (control::CTRL, ctrl::LAYOUT),
    (control::STATUS, status::LAYOUT),
    (control::REQUEST_LIMITS, request_limits::LAYOUT),
    (mailbox::CMD_GO, cmd_go::LAYOUT),
    (mailbox::CMD_STATUS, cmd_status::LAYOUT),
];
/// All register pages.
pub const PAGES: [RegPage; 4] = [
    control::PAGE,
    mailbox::PAGE,
    crate::counters::PAGE,
    doorbell::PAGE,
];

/// The layout of `control::LIMITS`.
pub mod limits {
    use super::*;
    layout! { ($)
        /// Sizes of the device, as powers of two.
        Limits, limits_fields, Little, source "this contract";
        /// log2 of the number of queue pairs.
        LOG2_QPS log2_qps: u8 [5];
        /// log2 of the number of completion queues.
        LOG2_CQS log2_cqs: u8 [5];
        /// log2 of the number of memory regions.
        LOG2_MRS log2_mrs: u8 [5];
        /// log2 of the number of event queues.
        LOG2_EQS log2_eqs: u8 [4];
        /// log2 of the number of WQEs a queue pair may have unacknowledged.
        LOG2_OUTSTANDING log2_outstanding: u8 [4];
        /// log2 of the largest ring, in entries.
        LOG2_RING log2_ring: u8 [5];
        /// log2 of the READs and atomics per queue pair, each way.
        LOG2_RD_ATOMIC log2_rd_atomic: u8 [4];
    }
}
/// The layout of `control::REQUEST_LIMITS`.
pub mod request_limits {
    use super::*;
    layout! { ($)
        /// What a work request may hold.
        RequestLimits, request_limits_fields, Little, source "this contract";
        /// Scatter/gather entries of a send.
        SEND_SGES send_sges: u8;
        /// Scatter/gather entries of a receive.
        RECV_SGES recv_sges: u8;
        /// Bytes inline.
        INLINE inline: u8;
        /// Zero.
        RESERVED reserved: u8;
    }
}
/// The layout of `control::CTRL`.
pub mod ctrl {
    use super::*;
    layout! { ($)
        /// Enable bits.
        Ctrl, ctrl_fields, Little, source "this contract";
        /// The device sends, receives and does DMA only while this is 1.
        ENABLE enable: u8 [1];
        /// Zero.
        RESERVED reserved: u32 [31];
    }
}
/// The layout of `control::STATUS`.
pub mod status {
    use super::*;
    layout! { ($)
        /// What the device is doing.
        DeviceStatus, device_status_fields, Little, source "this contract";
        /// Tables are cleared after reset: commands are taken.
        READY ready: u8 [1];
        /// Draining for a function-level reset.
        FLR flr: u8 [1];
        /// The host allows bus mastering.
        BUS_MASTER bus_master: u8 [1];
        /// An event queue overflowed since reset.
        EQ_OVERFLOW eq_overflow: u8 [1];
        /// Zero.
        RESERVED reserved: u32 [28];
    }
}
/// The layout of `mailbox::CMD_GO`.
pub mod cmd_go {
    use super::*;
    layout! { ($)
        /// Starts a command.
        CmdGo, cmd_go_fields, Little, source "this contract";
        /// `cmd::opcode`.
        OPCODE opcode: u8;
        /// Any number; comes back in CMD_STATUS, so that an old status is never taken for the new one.
        TOKEN token: u8;
        /// Zero.
        RESERVED reserved: u16;
    }
}
/// The layout of `mailbox::CMD_STATUS`.
pub mod cmd_status {
    use super::*;
    layout! { ($)
        /// How the last command stands.
        CmdStatus, cmd_status_fields, Little, source "this contract";
        /// `cmd::status`; valid when not busy.
        STATUS status: u8;
        /// Token of the last command started.
        TOKEN token: u8;
        /// Zero.
        RESERVED reserved: u16 [15];
        /// A command is running.
        BUSY busy: u8 [1];
    }
}
/// The layout of every doorbell.
pub mod queue_doorbell {
    use super::*;
    layout! { ($)
        /// A doorbell write.
        QueueDoorbell, queue_doorbell_fields, Little, source "this contract";
        /// Free-running 16-bit producer or consumer index, or a limit.
        INDEX index: u16;
        /// QPN, CQN or EQN; the low 16 bits.
        NUMBER number: u16;
    }
}
