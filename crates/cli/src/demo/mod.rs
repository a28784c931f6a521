//! `layercast demo`: one scenario with real processes and in the simulator, side by side.

mod children;
mod live;
mod plan;
mod quality;
mod screen;
mod summary;
mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use layercast_core::Span;
use layercast_sim::scenario::{ClipSpec, Scenario};
use serde_json::{Value, to_value};

use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::scenario::{self, Override};
use crate::{args, repair, report, signals, sim};
use plan::{Plan, Role};
use screen::Screen;

/// Length of the scenario with `--quick`.
const QUICK: Span = Span::from_secs(12);

/// Runs the command.
pub fn run(args: &args::Demo) -> Outcome {
    let instead = Override {
        seed: args.seed,
        at_most: args.quick.then_some(QUICK),
        protect_base: args.protect_base,
    };
    let text = scenario::read(&args.scenario)?;
    let named = (args.scenario.as_path(), &*text);
    let scenario = scenario::load(named, instead)?;
    let network = scenario::resolve(named, &scenario)?;
    let plan = Plan::new(&scenario, &args.out)?;
    fs::create_dir_all(&args.out).map_err(|error| Failure::file(&args.out, "create", &error))?;
    let topology = summary::topology(&network);

    let simulated = sim::simulate(
        network,
        &mut layercast_core::Off,
        None,
        &AtomicBool::new(false),
    )?;
    eprintln!(
        "simulated {:.0} s of network in {:.1} s; now the same with real processes",
        simulated.sim_seconds, simulated.wall_seconds
    );
    let simulated = summary::receivers_of(&simulated)?;

    let file = write_for_children(&scenario, &args.out)?;
    let names = plan.receivers().map(|who| plan.processes[who].name.clone());
    let names: Vec<String> = names.collect();
    let mut screen = Screen::new(names, plan.duration);
    let runtime = crate::node::runtime()?;
    let run = runtime.block_on(live::run(
        &plan,
        &file,
        &args.out,
        args.control,
        &mut screen,
    ))?;
    drop(runtime);
    signals::exit_on_first()?;

    eprintln!("decoding what was received");
    let receivers = judge_all(&plan, &scenario, &run)?;
    // Stopped early, it is judged by what the simulator says up to then.
    let end = run.interrupted.unwrap_or(plan.duration.as_secs_f64());
    let joined = scenario
        .receivers
        .iter()
        .filter(|receiver| receiver.join.as_secs_f64() < end);
    let expected: Vec<String> = joined.map(|receiver| receiver.name().to_owned()).collect();
    let promise = verdict::judge(&receivers, &simulated, &expected, end);
    let summary = summary::Parts {
        scenario: &scenario,
        plan: &plan,
        run: &run,
        receivers: &receivers,
        simulated: &simulated,
        promise: &promise,
        topology,
    };
    let summary = summary.build()?;
    write(&args.out.join("summary.json"), &format!("{summary:#}\n"))?;
    let page = args.out.join("report.html");
    write(&page, &report::render(&summary))?;

    if args.json {
        print_json(&summary)?;
    } else {
        print(&summary::table(&receivers, &simulated, end))?;
        print(&repair::lines(&receivers))?;
        print(&format!("\n{}", promise.render()))?;
        print(&format!("\nreport: {}\n", page.display()))?;
    }
    let clean = receivers
        .iter()
        .all(|r| r["complaints"] == Value::Array(Vec::new()));
    match (run.interrupted.is_some(), promise.kept && clean) {
        (true, _) => Err(Failure::Interrupted),
        (false, true) => Ok(()),
        (false, false) => Err(Failure::Unsatisfied),
    }
}

/// Writes the scenario as it is run, seed and length as on the command line, for the processes.
fn write_for_children(scenario: &Scenario, out: &Path) -> Result<PathBuf, Failure> {
    let file = out.join("scenario.toml");
    let text = toml::to_string(scenario).map_err(Failure::new)?;
    write(&file, &text)?;
    Ok(file)
}

fn write(path: &Path, text: &str) -> Outcome {
    fs::write(path, text).map_err(|error| Failure::file(path, "write", &error))
}

/// What every receiver reported, with what ffmpeg says about its stream.
fn judge_all(plan: &Plan, scenario: &Scenario, run: &live::Run) -> Result<Vec<Value>, Failure> {
    let mut receivers = Vec::new();
    for who in plan.receivers() {
        let process = &plan.processes[who];
        let (Role::Join(file), Some(reported)) = (&process.role, &run.summaries[who]) else {
            continue;
        };
        let received = &reported["receiver"];
        let flow_name = received["flow"].as_str().unwrap_or_default();
        let flow = scenario.flows.iter().find(|entry| entry.name == flow_name);
        let source = flow.and_then(|entry| match &entry.clip {
            ClipSpec::File(path) => Some(scenario.base_dir.join(path)),
            ClipSpec::Trace(_) | ClipSpec::Synthetic(_) => None,
        });
        let first = reported["first_picture"].as_u64();
        // Traces and synthetic frames are no video: there is nothing to decode.
        let has_video = reported["output"]["bytes"] != 0;
        let source = source.filter(|_| has_video);
        let quality = source.map(|source| quality::judge(file, &source, first));
        let quality = quality.unwrap_or_default();
        let receiver = summary::DemoReceiver {
            received: received.clone(),
            flow: flow_name,
            first_picture: first,
            node: &process.node,
            file: file.display().to_string(),
            psnr_db: quality.psnr_db,
            ssim: quality.ssim,
            decoded_pictures: quality.decoded_pictures,
            complaints: quality.complaints,
        };
        receivers.push(to_value(receiver).map_err(Failure::new)?);
    }
    Ok(receivers)
}
