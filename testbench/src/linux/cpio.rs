//! The archive a kernel unpacks into its first file system (cpio, "newc").

/// Type bits of the mode.
const DIRECTORY: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
/// Every part begins at a multiple of this.
const ALIGN: usize = 4;
const MAGIC: &[u8] = b"070701";
const END: &str = "TRAILER!!!";

#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    number: u32,
}
impl Archive {
    pub fn directory(&mut self, path: &str) {
        self.entry(path, DIRECTORY | 0o755, b"");
    }
    pub fn file(&mut self, path: &str, executable: bool, data: &[u8]) {
        self.entry(path, FILE | if executable { 0o755 } else { 0o644 }, data);
    }
    pub fn link(&mut self, path: &str, to: &str) {
        self.entry(path, LINK | 0o777, to.as_bytes());
    }
    /// The whole archive.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry(END, 0, b"");
        self.bytes
    }
    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) {
        self.number += 1;
        self.bytes.extend_from_slice(MAGIC);
        let [inode, links] = [self.number, 1];
        let (size, name_size) = (data.len() as u32, name.len() as u32 + 1);
        // inode, mode, user, group, links, time, size, device (2), device of a node (2), name, checksum
        for field in [inode, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0] {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend_from_slice(data);
        self.align();
    }
    fn align(&mut self) {
        let end = self.bytes.len().next_multiple_of(ALIGN);
        self.bytes.resize(end, 0);
    }
}
