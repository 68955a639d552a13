//! `cargo xtask fuzz`: interfaces attacked with made-up input.
use anyhow::Result;
use clap::Subcommand;
use rocenic_testbench::vfio_fuzz;
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    target: Target,
}
#[derive(Subcommand)]
enum Target {
    /// The socket of `rocenic sim serve`; what is new is added to the corpus in the source tree
    VfioUser(VfioUserArgs),
}
#[derive(clap::Args)]
struct VfioUserArgs {
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Play the cases of this file instead, as a failure leaves them
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

pub fn run(args: Args) -> Result<()> {
    let Target::VfioUser(a) = args.target;
    let library = rocenic_sim::nic::library(false)?;
    if let Some(file) = a.replay {
        let mut f = vfio_fuzz::Fuzzer::new(&library)?;
        let cases = vfio_fuzz::read(&file)?;
        for c in &cases {
            f.play(c)?;
        }
        f.audit()?;
        println!("{} cases, {} features", cases.len(), f.features());
        return Ok(());
    }
    let tell = |line: &str| println!("{line}");
    let corpus = vfio_fuzz::corpus_file();
    let c = vfio_fuzz::campaign(&library, &corpus, a.seconds, a.seed, &tell)?;
    println!(
        "{} cases, {} features, {} kept; the server stood",
        c.cases, c.features, c.kept
    );
    Ok(())
}
