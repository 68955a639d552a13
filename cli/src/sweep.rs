//! `rocenic sweep`
use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;
use rocenic_sim::verilate::target_dir;
use rocenic_testbench::sweep::{Point, point};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  rocenic sweep
  rocenic sweep --loss 0,2 --mib 1 --out /tmp/sweep")]
pub struct Args {
    /// Losses in percent of all frames, each way
    #[arg(long, value_delimiter = ',', default_value = "0,0.1,1,5")]
    loss: Vec<f64>,
    /// MiB moved for each
    #[arg(long, default_value_t = 8)]
    mib: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where captures and plot go (default: `sweep` in the target directory)
    #[arg(long)]
    out: Option<PathBuf>,
}

pub fn run(a: &Args) -> Result<()> {
    let dir = a.out.clone().unwrap_or_else(|| target_dir().join("sweep"));
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
    eprintln!("building the NIC's model (from the cache when it is there) ...");
    let library = rocenic_sim::nic::library(false)?;
    println!(
        "RDMA WRITE, one queue pair, PMTU 4096, 100 Gb/s, {} MiB",
        a.mib
    );
    println!(
        "loss %  goodput Gb/s  frames lost  sent again  NAKs  steps back  of them from the NAKed PSN"
    );
    let mut points = vec![];
    for loss in &a.loss {
        let p = point(&library, &dir, loss / 100.0, a.mib << 20, a.seed)?;
        print!("{loss:>6}  {:>12.2}  {:>11}", p.gigabits(), p.lost);
        match p.seen {
            Some(s) => println!(
                "  {:>10}  {:>4}  {:>10}  {:>26}",
                s.again, s.naks, s.steps_back, s.from_the_naked_psn
            ),
            None => println!("  (no tshark: the capture was not judged)"),
        }
        points.push(p);
    }
    let path = dir.join("goodput.svg");
    plot(&points, &path).map_err(|e| anyhow!("cannot draw {}: {e}", path.display()))?;
    let judged = points.iter().all(|p| p.seen.is_some());
    if judged {
        println!(
            "nothing was sent from before a NAKed PSN (tshark, {} captures)",
            points.len()
        );
    }
    println!("{}", path.display());
    Ok(())
}
fn plot(points: &[Point], path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let most = points.iter().map(|p| p.loss * 100.0).fold(0.1, f64::max);
    let root = SVGBackend::new(path, (720, 420)).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Goodput of one RC queue pair, RDMA WRITE, PMTU 4096",
            ("sans-serif", 18),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..most, 0.0..100.0)?;
    chart
        .configure_mesh()
        .x_desc("frames lost, %")
        .y_desc("Gb/s")
        .draw()?;
    let at: Vec<(f64, f64)> = points
        .iter()
        .map(|p| (p.loss * 100.0, p.gigabits()))
        .collect();
    chart.draw_series(LineSeries::new(at.clone(), &BLUE))?;
    chart.draw_series(at.iter().map(|p| Circle::new(*p, 4, BLUE.filled())))?;
    root.present()?;
    Ok(())
}
