//! `cargo xtask vm`: the NIC against other systems in virtual machines.
use crate::workspace;
use clap::Subcommand;
use rocenic_testbench::linux::{self, Config, News, Verdict};
use rocenic_testbench::vfio_vm;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    guest: Guest,
}
#[derive(Subcommand)]
enum Guest {
    /// The Linux kernel's rxe with unmodified tools, in both directions
    Linux(LinuxArgs),
    /// The kernel's VFIO and IOMMU, with the same driver in the guest
    Vfio,
}
#[derive(clap::Args)]
struct LinuxArgs {
    /// Only cases whose name contains this
    only: Option<String>,
    /// Percent of the frames that the second pass loses
    #[arg(long, default_value_t = 1.0, value_name = "PERCENT")]
    drop: f64,
    /// Seed of the data and of the losses
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also operations that the NIC does not announce
    #[arg(long)]
    all: bool,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let a = match args.guest {
        Guest::Linux(a) => a,
        Guest::Vfio => {
            return vfio(&vfio_vm::Bundle::fetch(&vfio_vm::directory())?)?.finish();
        }
    };
    anyhow::ensure!(
        (0.0..=100.0).contains(&a.drop),
        "--drop {}: a percentage from 0 to 100",
        a.drop
    );
    let config = Config {
        seed: a.seed,
        only: a.only,
        drop: a.drop / 100.0,
        all: a.all,
    };
    let c = linux(&linux::fetch()?, &config)?;
    c.finish()
}

/// What became of the cases.
#[derive(Default)]
pub struct Count {
    pub passed: usize,
    pub failures: Vec<String>,
}
impl Count {
    fn finish(self) -> anyhow::Result<()> {
        println!("{} passed, {} failed", self.passed, self.failures.len());
        if self.failures.is_empty() && self.passed > 0 {
            return Ok(());
        }
        std::process::exit(1);
    }
}
/// Runs the guest that uses the kernel's VFIO, telling how each step went.
pub fn vfio(bundle: &vfio_vm::Bundle) -> anyhow::Result<Count> {
    let mut c = Count::default();
    let rocenic = workspace::program("rocenic")?;
    // the model is built here, where its progress is seen
    rocenic_sim::nic::library(false)?;
    let told =
        |s: &vfio_vm::Step| println!("{}: {}", s.name, if s.passed { "ok" } else { "FAILED" });
    let mut seen = 0;
    let steps = vfio_vm::run(bundle, &rocenic, &mut |s| {
        seen += 1;
        told(s);
    })?;
    steps[seen..].iter().for_each(told);
    for s in steps {
        if s.passed {
            c.passed += 1;
        } else {
            c.failures.push(s.name);
        }
    }
    println!("logs are in {}", vfio_vm::directory().display());
    Ok(c)
}
/// Runs them, telling how each went.
pub fn linux(parts: &linux::Parts, config: &Config) -> anyhow::Result<Count> {
    let library = rocenic_sim::nic::library(false)?;
    let mut c = Count::default();
    linux::run(parts, &library, config, &mut |n| match n {
        News::Ready(version) => println!("guest: {version} s from power to rxe"),
        News::Pass { capture, counters } => println!("{capture}\n{counters}"),
        News::Case {
            name,
            seconds,
            verdict,
        } => match verdict {
            Verdict::Passed => {
                c.passed += 1;
                println!("{name}: ok ({seconds} s)");
            }
            Verdict::NotYet => println!("{name}: not yet, the NIC lacks the operation"),
            Verdict::Failed(e) => {
                c.failures.push(name.to_owned());
                println!("{name}: FAILED ({seconds} s): {e:#}");
            }
        },
    })?;
    Ok(c)
}
