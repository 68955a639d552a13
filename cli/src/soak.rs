//! `rocenic soak`
use anyhow::{Context, ensure};
use rocenic_sim::verilate::target_dir;
use rocenic_testbench::soak::{Focus, State, Watch, run as episode, table};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rocenic soak --packets 20000              # some minutes
  rocenic soak --packets 1000000 --resume   # goes on where the last one ended
  rocenic soak --packets 0 --resume         # only the summary of what was done
  rocenic soak --seed 1 --episode 7         # one episode again, with its capture")]
pub struct Args {
    /// Ends when both NICs together have sent this many frames
    #[arg(long, default_value_t = 100_000)]
    packets: u64,
    /// Repeats a campaign exactly
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Go on where the last campaign of this seed was interrupted or ended
    #[arg(long)]
    resume: bool,
    /// Where the campaign's state is kept (default: `soak/seed-N.json` in the target directory); its summary
    /// in Markdown is beside it
    #[arg(long)]
    state: Option<PathBuf>,
    /// Run this episode alone, and leave its capture in the target directory
    #[arg(long)]
    episode: Option<u64>,
    /// With --episode: what the episode was about, as the campaign printed it
    #[arg(long, requires = "episode")]
    focus: Option<Focus>,
    /// With --episode: waveform of NIC A, this many cycles from its first send on
    #[arg(long, requires = "episode")]
    wave: Option<u64>,
    /// The campaign ends after so many failures
    #[arg(long, default_value_t = 10)]
    failures: usize,
}

pub fn run(a: &Args) -> anyhow::Result<ExitCode> {
    eprintln!("building the NIC's model (from the cache when it is there) ...");
    let library = rocenic_sim::nic::library(a.wave.is_some())?;
    let dir = target_dir().join("soak");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    if let Some(n) = a.episode {
        let name = format!("seed-{}-episode-{n}", a.seed);
        let watch = Watch {
            capture: Some(dir.join(&name).with_extension("pcapng")),
            trace: a
                .wave
                .map(|cycles| (dir.join(&name).with_extension("fst"), cycles)),
        };
        println!("{}", dir.join(&name).with_extension("pcapng").display());
        let e = episode(&library, a.seed, n, a.focus.as_ref(), &watch)?;
        println!("episode {n} passes: {:?}", e.nics);
        return Ok(ExitCode::SUCCESS);
    }
    let path = a.state.clone();
    let path = path.unwrap_or_else(|| dir.join(format!("seed-{}.json", a.seed)));
    let mut s = State::new(a.seed);
    if a.resume && path.exists() {
        s = State::load(&path)?;
        ensure!(
            s.seed == a.seed,
            "{} is of seed {}; give --seed {} or another --state",
            path.display(),
            s.seed,
            s.seed
        );
        eprintln!("resuming at episode {}, {} packets", s.next, s.packets);
    }
    let (start, before) = (Instant::now(), s.packets);
    let mut told = 0;
    while s.packets < a.packets && s.failures.len() < a.failures {
        s.step(&library);
        s.save(&path)?;
        let seconds = start.elapsed().as_secs();
        if seconds >= told + 10 {
            told = seconds;
            eprintln!(
                "{seconds:5} s  episode {}, {} packets ({}/s), {} failures",
                s.next,
                s.packets,
                (s.packets - before) / seconds,
                s.failures.len()
            );
        }
    }
    let summary = path.with_extension("md");
    std::fs::write(&summary, table(&s))
        .with_context(|| format!("cannot write {}", summary.display()))?;
    print!("{}", table(&s));
    println!("\n{}, {}", path.display(), summary.display());
    Ok(ExitCode::from(u8::from(!s.failures.is_empty())))
}
