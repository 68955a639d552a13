//! The driver's DMA memory as the simulated bus reaches it.
use rocenic_driver::transport::in_process::DmaSpace;
use rocenic_sim::nic::{LINE, Memory};
use std::sync::Arc;

pub struct SharedMemory(pub Arc<DmaSpace>);

impl Memory for SharedMemory {
    fn read(&mut self, iova: u64, line: &mut [u8; LINE]) -> bool {
        self.0.read(iova, line).is_ok()
    }
    fn write(&mut self, iova: u64, line: &[u8; LINE], strobe: u64) -> bool {
        let mut at = 0;
        let mut ok = true;
        while at < LINE {
            let rest = strobe >> at;
            if rest == 0 {
                break;
            }
            let from = at + rest.trailing_zeros() as usize;
            let to = from + (!(strobe >> from)).trailing_zeros() as usize;
            ok &= self.0.write(iova + from as u64, &line[from..to]).is_ok();
            at = to;
        }
        ok
    }
}
