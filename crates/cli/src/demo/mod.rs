//! `layercast demo`: one scenario with real processes and in the simulator, side by side.

mod children;
mod decoder;
mod film;
mod live;
mod moments;
mod plan;
mod quality;
mod screen;
mod shown;
mod summary;
mod verdict;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{available_parallelism, scope};

use layercast_core::Span;
use layercast_sim::scenario::Scenario;
use serde_json::{Value, to_value};

use crate::failure::{Failure, Outcome};
use crate::output::{print, print_json};
use crate::scenario::{self, Override};
use crate::{args, repair, report, signals, sim};
pub use decoder::name as ffmpeg;
use film::Film;
use moments::{Moment, Seen};
pub use plan::extension;
use plan::{Plan, Role};
use quality::Quality;
pub use quality::{PSNR_EQUAL, psnr};
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
    let plan = Plan::new(&scenario, &network, &args.out)?;
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
    let mut films = films(&scenario)?;
    let judged = judge_all(&plan, &mut films, &run, &args.out);
    let receivers = judged.values()?;
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
        films: &films,
        no_pictures: judged.no_pictures.as_deref(),
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
    write(&page, &report::render(&summary, &judged.images(&args.out)?))?;

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

/// The films of the flows of `scenario`.
fn films(scenario: &Scenario) -> Result<Vec<Film>, Failure> {
    let films = scenario.flows.iter();
    let films = films.filter_map(|flow| Film::of(flow, &scenario.base_dir).transpose());
    films.collect()
}

/// What the receivers reported, with what ffmpeg says about their streams.
struct Judged<'a> {
    receivers: Vec<Receiver<'a>>,
    /// Why there are no pictures of what they saw.
    no_pictures: Option<String>,
}

/// A receiver that reported.
struct Receiver<'a> {
    /// The place of the film in the list of films; `None` if it got no video.
    film: Option<usize>,
    flow: &'a str,
    name: &'a str,
    node: &'a str,
    file: &'a Path,
    reported: &'a Value,
    quality: Quality,
    moments: Vec<Option<Moment>>,
}

/// Decodes what every receiver wrote.
fn judge_all<'a>(plan: &'a Plan, films: &mut [Film], run: &'a live::Run, out: &Path) -> Judged<'a> {
    let mut receivers = Vec::new();
    for who in plan.receivers() {
        let process = &plan.processes[who];
        let (Role::Join(file), Some(reported)) = (&process.role, &run.summaries[who]) else {
            continue;
        };
        let flow = reported["receiver"]["flow"].as_str().unwrap_or_default();
        // Traces and synthetic frames are no video: there is nothing to decode.
        let has_video = reported["output"]["bytes"] != 0;
        let film = films.iter().position(|film| film.flow == flow && has_video);
        receivers.push(Receiver {
            film,
            flow,
            name: &process.name,
            node: &process.node,
            file,
            reported,
            quality: Quality::default(),
            moments: Vec::new(),
        });
    }
    let mut no_pictures =
        (!receivers.iter().any(|it| it.film.is_some())).then(|| "no receiver got video".to_owned());
    in_parallel(films.iter_mut(), |film| {
        // What ffmpeg says of the streams says enough.
        let _ = film.decode();
    });
    in_parallel(receivers.iter_mut(), |receiver| {
        if let Some(film) = receiver.film {
            let first = receiver.reported["first_picture"].as_u64();
            receiver.quality = quality::judge(receiver.file, &films[film], first);
        }
    });
    let numbers: Vec<Vec<u64>> = (0..films.len())
        .map(|film| {
            let own = receivers.iter().filter(|it| it.film == Some(film));
            moments::chosen(own.filter_map(|it| it.quality.shown.as_ref()?.period()))
        })
        .collect();
    let failures = Mutex::new(Vec::new());
    in_parallel(receivers.iter_mut(), |receiver| {
        if let Some(film) = receiver.film {
            match receiver.moments(&films[film], &numbers[film], out) {
                Ok(moments) => receiver.moments = moments,
                Err(error) => {
                    let what = format!("ffmpeg gives none of {}: {error}", receiver.name);
                    lock(&failures).push(what);
                }
            }
        }
    });
    let failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    no_pictures = no_pictures.or(failures.into_iter().next());
    if receivers.iter().all(|it| it.moments.is_empty()) {
        let complaint = receivers
            .iter()
            .find_map(|it| it.quality.complaints.first());
        no_pictures = no_pictures.or(complaint.cloned());
    }
    Judged {
        receivers,
        no_pictures,
    }
}

/// Does `work` on all of `items`, on as many threads as there are processors: ffmpeg alone does not use all of them.
fn in_parallel<T: Send>(items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let workers = available_parallelism().map_or(1, usize::from);
    let items = Mutex::new(items);
    scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    // The lock is free while an item is worked on.
                    let item = lock(&items).next();
                    let Some(item) = item else { break };
                    work(item);
                }
            });
        }
    });
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The work of another thread is its own.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Receiver<'_> {
    /// The pictures `numbers` of `film` as it saw them.
    fn moments(
        &self,
        film: &Film,
        numbers: &[u64],
        out: &Path,
    ) -> std::io::Result<Vec<Option<Moment>>> {
        let Some(shown) = &self.quality.shown else {
            return Ok(Vec::new());
        };
        let received = &self.reported["receiver"];
        let seen = Seen {
            name: self.name,
            stream: self.file,
            shown,
            level_at: &|time| summary::received_at(received, time),
        };
        moments::moments(&seen, film, numbers, out)
    }

    fn value(&self) -> Result<Value, Failure> {
        let counts = self.quality.shown.as_ref().map(|it| it.counts());
        let receiver = summary::DemoReceiver {
            received: self.reported["receiver"].clone(),
            flow: self.flow,
            first_picture: self.reported["first_picture"].as_u64(),
            node: self.node,
            file: self.file.display().to_string(),
            psnr_db: self.quality.psnr_db,
            ssim: self.quality.ssim,
            decoded_pictures: self.quality.decoded_pictures,
            shown: counts.map(|it| it.0),
            frozen: counts.map(|it| it.1),
            moments: &self.moments,
            complaints: &self.quality.complaints,
        };
        to_value(receiver).map_err(Failure::new)
    }
}

impl Judged<'_> {
    /// The receivers as `summary.json` has them.
    fn values(&self) -> Result<Vec<Value>, Failure> {
        self.receivers.iter().map(Receiver::value).collect()
    }

    /// The images of the moments by their file names, read from `out`.
    fn images(&self, out: &Path) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let moments = self.receivers.iter().flat_map(|it| &it.moments).flatten();
        let names = moments.flat_map(|moment| [&moment.picture, &moment.detail]);
        let read = |name: &String| {
            let path = out.join(name);
            let image = fs::read(&path).map_err(|error| Failure::file(&path, "read", &error))?;
            Ok((name.clone(), image))
        };
        names.map(read).collect()
    }
}
