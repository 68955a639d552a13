//! Every block that is checked on its own by `cargo xtask lint`. A new block gets its line here.
use rust_hdl_core::prelude::Block;

macro_rules! list {
    ($($t: ty,)*) => {
        vec![$({
            let mut b: Box<dyn Block> = Box::<$t>::default();
            b.connect_all();
            b
        },)*]
    };
}

/// A fresh instance of each, connected.
pub fn blocks() -> Vec<Box<dyn Block>> {
    use crate::{host::*, qp::*, roce, stream::*, types};
    list![
        Skid<types::Beat>,
        FromAxis,
        ToAxis,
        Realign,
        roce::Icrc,
        roce::IcrcTail,
        roce::IcrcCheck,
        roce::IcrcInsert,
        roce::RxParse,
        roce::RxFront,
        roce::CellList,
        roce::Pktbuf,
        roce::PktbufRead,
        roce::Epochs,
        roce::PathTable,
        roce::HeadBuild,
        roce::FrameBuild,
        roce::TxArb,
        roce::Transmit,
        axi_read::AxiRead,
        axi_write::AxiWrite,
        axil_regs::AxilRegs,
        cmd::Cmd,
        counters::Counters,
        cq_engine::CqEngine,
        doorbells::Doorbells,
        eq_engine::EqEngine,
        mr_table::MrTable,
        payload_read::PayloadRead,
        payload_write::PayloadWrite,
        push::Push,
        read_tags::ReadTags,
        reorder::Reorder,
        ack_gen::AckGen,
        rx_dispatch::RxDispatch,
        responder::Responder,
        rx_park::RxPark,
        rx_access::RxAccess,
        rq_fetch::RqFetch,
        rx_retire::RxRetire,
        rq_flush::RqFlush,
        rx_path::RxPath,
    ]
}
