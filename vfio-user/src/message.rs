//! Commands and their layouts (libvfio-user, "vfio-user Protocol Specification" 0.1). Integers are little-endian.

/// Version of the protocol.
pub const MAJOR: u16 = 0;
pub const MINOR: u16 = 1;
/// Most bytes of data in one `REGION_READ` or `REGION_WRITE`, as both ends of Rocenic tell each other.
pub const MAX_DATA: usize = 4096;
/// In the text of `VERSION`: this client only looks. A server of Rocenic lets it read identity and registers beside the
/// client that uses the device; other servers do not know the word.
pub const OBSERVER: &str = r#""rocenic_observer":true"#;
/// Most file descriptors in one message.
pub const MAX_FDS: usize = 16;
/// Longest message either end takes: `MAX_DATA` and headers; a VERSION may carry a longer text.
pub const MAX_MESSAGE: usize = 16 << 10;

pub mod command {
    pub const VERSION: u16 = 1;
    pub const DMA_MAP: u16 = 2;
    pub const DMA_UNMAP: u16 = 3;
    pub const GET_INFO: u16 = 4;
    pub const GET_REGION_INFO: u16 = 5;
    pub const GET_IRQ_INFO: u16 = 7;
    pub const SET_IRQS: u16 = 8;
    pub const REGION_READ: u16 = 9;
    pub const REGION_WRITE: u16 = 10;
    pub const RESET: u16 = 13;
}
/// Bits of [`Header::flags`].
pub mod flag {
    pub const TYPE: u32 = 0xf;
    pub const COMMAND: u32 = 0;
    pub const REPLY: u32 = 1;
    pub const NO_REPLY: u32 = 1 << 4;
    pub const ERROR: u32 = 1 << 5;
}
/// Bits of [`DmaMap::flags`].
pub mod dma {
    pub const READ: u32 = 1;
    pub const WRITE: u32 = 2;
}
/// Bit of [`DmaUnmap::flags`]: everything.
pub const UNMAP_ALL: u32 = 1 << 1;

macro_rules! layouts {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $int:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$field_doc])* pub $field: $int,)* }
        impl $name {
            pub const BYTES: usize = 0 $(+ size_of::<$int>())*;
            pub fn to_bytes(&self) -> Vec<u8> {
                let mut to = Vec::with_capacity(Self::BYTES);
                $(to.extend_from_slice(&self.$field.to_le_bytes());)*
                to
            }
            /// Takes the layout off the front of a message; `None` when it is too short.
            pub fn take(from: &mut &[u8]) -> Option<Self> {
                let mut this = Self::default();
                $(
                    let (bytes, rest) = from.split_first_chunk()?;
                    this.$field = <$int>::from_le_bytes(*bytes);
                    *from = rest;
                )*
                Some(this)
            }
        }
    )*};
}

layouts! {
    /// Begins every message.
    Header {
        /// Chosen by who asks; the reply has the same.
        id: u16,
        command: u16,
        /// Bytes of the message, this header among them.
        size: u32,
        flags: u32,
        /// `errno` of a reply with [`flag::ERROR`].
        error: u32,
    }
    /// `VERSION`; a JSON text ended by a zero byte follows.
    Version { major: u16, minor: u16, }
    /// `DMA_MAP`; the memory's file descriptor goes along.
    DmaMap { argsz: u32, flags: u32, offset: u64, address: u64, size: u64, }
    /// `DMA_UNMAP`, and its reply.
    DmaUnmap { argsz: u32, flags: u32, address: u64, size: u64, }
    /// `GET_INFO`, and its reply.
    DeviceInfo { argsz: u32, flags: u32, regions: u32, irqs: u32, }
    /// `GET_REGION_INFO`, and its reply.
    RegionInfo { argsz: u32, flags: u32, index: u32, cap_offset: u32, size: u64, offset: u64, }
    /// `GET_IRQ_INFO`, and its reply.
    IrqInfo { argsz: u32, flags: u32, index: u32, count: u32, }
    /// `SET_IRQS`; data or file descriptors go along.
    SetIrqs { argsz: u32, flags: u32, index: u32, start: u32, count: u32, }
    /// `REGION_READ`, `REGION_WRITE`, and their replies; data follows.
    Access { offset: u64, region: u32, count: u32, }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_the_sizes_of_the_specification() {
        let sizes = [
            Header::BYTES,
            Version::BYTES,
            DmaMap::BYTES,
            DmaUnmap::BYTES,
            DeviceInfo::BYTES,
            RegionInfo::BYTES,
            IrqInfo::BYTES,
            SetIrqs::BYTES,
            Access::BYTES,
        ];
        assert_eq!(sizes, [16, 4, 32, 24, 16, 32, 16, 20, 16]);
    }
    #[test]
    fn what_is_written_is_read_back_and_short_messages_are_refused() {
        let m = DmaMap {
            argsz: 32,
            flags: dma::READ,
            offset: 1,
            address: u64::MAX,
            size: 3,
        };
        let bytes = m.to_bytes();
        let mut rest = &bytes[..];
        assert_eq!(DmaMap::take(&mut rest), Some(m));
        assert!(rest.is_empty());
        for n in 0..bytes.len() {
            assert_eq!(DmaMap::take(&mut &bytes[..n]), None, "{n} bytes");
        }
    }
}
