//! `host::cmd`
use rocenic_hdl::host::cmd::Cmd;
use rocenic_testbench::Dut;

#[test]
fn it_emits() {
    let mut dut = Dut::new(Cmd::default());
    dut.reset();
}
#[test]
fn others_emit() {
    Dut::new(rocenic_hdl::host::axil_regs::AxilRegs::default()).reset();
    Dut::new(rocenic_hdl::host::doorbells::Doorbells::default()).reset();
    Dut::new(rocenic_hdl::host::counters::Counters::default()).reset();
    Dut::new(rocenic_hdl::host::push::Push::default()).reset();
    Dut::new(rocenic_hdl::host::mr_table::MrTable::default()).reset();
    Dut::new(rocenic_hdl::host::cq_engine::CqEngine::default()).reset();
    Dut::new(rocenic_hdl::host::eq_engine::EqEngine::default()).reset();
}
