//! Two NICs on a wire.
use rocenic_driver::*;
use rocenic_testbench::system::{Pair, PairConfig};

const A: Port = Port {
    mac: [2, 0, 0, 0, 0, 1],
    ipv4: std::net::Ipv4Addr::new(10, 0, 0, 1),
    pmtu: Pmtu::Mtu4096,
};

#[test]
fn a_driver_opens_the_device() {
    let library = rocenic_sim::nic::library(false).expect("the NIC builds");
    let pair = Pair::new(&library, PairConfig::default());
    let open = |t| -> anyhow::Result<()> {
        let c = Context::open(t)?;
        c.set_port(A)?;
        let pd = c.alloc_pd()?;
        let cq = c.create_cq(64)?;
        let _mr = pd.alloc_mr(4096, Access::LOCAL_WRITE)?;
        let _qp = pd.qp(&cq, &cq).build()?.init()?;
        Ok(())
    };
    let r = pair.run(open, open).unwrap_or_else(|e| panic!("{e}"));
    eprintln!("{:?}", r.nics);
}
