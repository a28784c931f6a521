//! `layercast overload`: which policy of a queue keeps a stream watchable when more comes than its line carries.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use layercast_core::Span;
use layercast_media::TS_PACKET;
use layercast_picture::TsDatagrams;
use layercast_sim::overload::{Overload, Overloaded};
use layercast_sim::scenario::DiscardSpec;
use serde::Serialize;

use crate::args;
use crate::demo::{PSNR_EQUAL, ffmpeg, psnr};
use crate::failure::{Failure, Outcome};
use crate::output::{Table, print, print_json};
use crate::probe;

/// What policies of a queue come to for copies of a stream.
#[derive(Debug, Serialize)]
struct Report {
    /// Copies of the stream.
    copies: u16,
    /// What they send, in parts of what the line carries.
    load: f64,
    /// Rate of the line in bit/s.
    line_bps: u64,
    /// Length of the stream in seconds.
    seconds: f64,
    /// Pictures of all copies.
    pictures: u64,
    /// One entry for each policy.
    policies: Vec<PolicyReport>,
}

/// What a policy comes to.
#[derive(Debug, Serialize)]
struct PolicyReport {
    /// Its name, as scenarios write it.
    policy: DiscardSpec,
    /// Lost datagrams of S, I, P and B, in percent.
    loss_percent: [f64; 4],
    /// Pictures that came whole, with all that they refer to, in percent.
    decodable_percent: f64,
    /// The same of the copy with the fewest.
    worst_percent: f64,
    /// Time in queue and on the line in milliseconds, median.
    p50_ms: f64,
    /// The same, 99 %.
    p99_ms: f64,
    /// Mean PSNR of the watched copies against the stream, in dB; null without ffmpeg, or if nothing can be decoded.
    psnr_db: Option<f64>,
}

/// Runs the command.
pub fn run(args: &args::Overload) -> Outcome {
    if args.watch > args.copies {
        let (watch, copies) = (args.watch, args.copies);
        return Err(Failure::Usage(format!(
            "--watch {watch} is above --copies {copies}: give at most {copies}, or more copies"
        )));
    }
    let data = probe::read_bytes(&args.file, false, args::Via::None)?;
    let packets = data.as_chunks::<TS_PACKET>().0;
    let stream = TsDatagrams::of(packets, args.smooth.into())
        .map_err(|error| Failure::of(&args.file, error))?;
    let policies = match args.policy.is_empty() {
        true => &DiscardSpec::ALL,
        false => args.policy.as_slice(),
    };
    let mut report = Report {
        copies: args.copies,
        load: args.load,
        line_bps: 0,
        seconds: stream.length.as_secs_f64(),
        pictures: 0,
        policies: Vec::new(),
    };
    for &policy in policies {
        let setting = Overload {
            copies: args.copies,
            load: args.load,
            discard: policy.discard(),
            queue: args.queue,
            seed: args.seed,
            watched: args.watch,
        };
        let run = setting.run(&stream).map_err(Failure::wrong_use)?;
        let streams = watched(&run, &stream, packets);
        if let Some(folder) = &args.out {
            write(folder, policy, &streams)?;
        }
        let values = streams
            .iter()
            .map(|it| picture_quality(it, &args.file, &stream));
        let values: Option<Vec<f64>> = values.collect();
        let values = values.filter(|values| !values.is_empty());
        (report.line_bps, report.pictures) = (run.line.as_bps(), run.pictures);
        report.policies.push(PolicyReport {
            policy,
            loss_percent: run.loss_percent,
            decodable_percent: run.decodable_percent,
            worst_percent: run.worst_percent,
            p50_ms: ms(run.delay[0]),
            p99_ms: ms(run.delay[1]),
            psnr_db: values.map(|values| values.iter().sum::<f64>() / values.len() as f64),
        });
    }
    match args.json {
        true => print_json(&report),
        false => print(&describe(&args.file, &report)),
    }
}

fn ms(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// The packets of each watched copy that came.
fn watched(run: &Overloaded, stream: &TsDatagrams, packets: &[[u8; TS_PACKET]]) -> Vec<Vec<u8>> {
    let octets = |numbers: &Vec<usize>| {
        let came = numbers.iter().map(|&number| stream.datagrams[number]);
        let packets = came.flat_map(|it| &packets[it.first..it.first + it.packets]);
        packets.flatten().copied().collect()
    };
    run.watched.iter().map(octets).collect()
}

fn write(folder: &Path, policy: DiscardSpec, streams: &[Vec<u8>]) -> Outcome {
    fs::create_dir_all(folder).map_err(|error| Failure::file(folder, "write", &error))?;
    for (number, octets) in streams.iter().enumerate() {
        let path = folder.join(format!("{}-{number}.ts", policy.name()));
        fs::write(&path, octets).map_err(|error| Failure::file(&path, "write", &error))?;
    }
    Ok(())
}

/// Mean PSNR of what a player shows of `received`: pictures that are missing show the one before them.
fn picture_quality(received: &[u8], original: &Path, stream: &TsDatagrams) -> Option<f64> {
    let rate = stream.pictures.len() as f64 / stream.length.as_secs_f64();
    // As many pictures as the stream has, at its instants.
    let graph = format!(
        "[0:v]fps={rate:.3}:start_time=0,split[r1][r2];[r2]nullsink;\
         [1:v]fps={rate:.3}:start_time=0[o];[r1]tpad=stop=-1:stop_mode=clone[r];[r][o]psnr=shortest=1"
    );
    let mut child = Command::new(ffmpeg())
        .args([
            "-v",
            "info",
            "-nostats",
            "-hide_banner",
            "-i",
            "pipe:0",
            "-i",
        ])
        .arg(original)
        .args(["-lavfi", &graph, "-f", "null", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let input = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // An ffmpeg that ends early says why.
            let _ = input.map(|mut input| input.write_all(received));
        });
        child.wait_with_output()
    });
    psnr(&String::from_utf8_lossy(&output.ok()?.stderr)).map(|it| it.min(PSNR_EQUAL))
}

/// The report as a table, the policy with the most decodable pictures last.
fn describe(path: &Path, report: &Report) -> String {
    let mut table = Table::new(&[
        "policy",
        "decodable",
        "worst copy",
        "PSNR",
        "lost S",
        "I",
        "P",
        "B",
        "delay p50",
        "p99",
    ]);
    for it in &report.policies {
        let percent = |value: f64| format!("{value:.1} %");
        let [s, i, p, b] = it.loss_percent.map(percent);
        table.row([
            it.policy.name().to_owned(),
            percent(it.decodable_percent),
            percent(it.worst_percent),
            it.psnr_db
                .map_or("-".to_owned(), |value| format!("{value:.1} dB")),
            s,
            i,
            p,
            b,
            format!("{:.1} ms", it.p50_ms),
            format!("{:.1} ms", it.p99_ms),
        ]);
    }
    let best = report
        .policies
        .iter()
        .max_by(|a, b| a.decodable_percent.total_cmp(&b.decodable_percent));
    let best = best.map_or_else(String::new, |it| {
        format!(
            "\n  most decodable pictures: {}, {:.1} %\n",
            it.policy.name(),
            it.decodable_percent
        )
    });
    format!(
        "{}\n\n  {} copies at {:.0} % of a line of {:.1} Mbit/s, {} pictures\n\n{}{best}",
        path.display(),
        report.copies,
        100.0 * report.load,
        report.line_bps as f64 / 1e6,
        report.pictures,
        table.render()
    )
}
