//! Nothing of a driver stays: neither here nor in the simulator.
mod common;
use common::{Sim, holdings, lets_go, repetitions};
use rocenic_driver::transport::Address;
use rocenic_driver::*;

/// With ROCENIC_SOAK set.
const CYCLES: usize = 1000;

/// Everything a program makes, dropped in an order that differs from cycle to cycle.
fn open_and_close(device: &Address, cycle: usize) -> Result<()> {
    let context = Context::open(device.open()?)?;
    // most cycles only open: what is inside takes longer
    if cycle.is_multiple_of(10) {
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(16)?;
        let mr = pd.alloc_mr(64 << 10, Access::LOCAL_WRITE)?;
        let mut qp = pd.qp(&cq, &cq).build()?.init()?;
        qp.post_recv(&RecvRequest::new(&[mr.all()]))?;
        match cycle / 10 % 3 {
            0 => drop((context, pd, cq, mr, qp)),
            1 => drop((qp, mr, cq, pd, context)),
            _ => drop((mr, cq, context, qp, pd)),
        }
    }
    Ok(())
}

#[test]
fn open_close_cycles_leave_nothing() {
    let sim = Sim::start_at(&Sim::base("cycles"), &[]);
    let device: Address = sim.device(0).parse().expect("an address");
    let (here, there) = (std::process::id(), sim.child.id());
    let before = (holdings(here), holdings(there));
    for n in 0..repetitions(CYCLES) {
        open_and_close(&device, n).unwrap_or_else(|e| panic!("cycle {n}: {e}"));
        if n % 50 == 0 {
            lets_go(here, &before.0);
            lets_go(there, &before.1);
        }
    }
    lets_go(here, &before.0);
    lets_go(there, &before.1);
}
