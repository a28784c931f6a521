//! Renditions of a real encoder on real sockets: unlike receivers get one each, and what they write is what ffmpeg decodes.
//!
//! Skipped with a note where ffmpeg is missing, unless `LAYERCAST_REQUIRE_TOOLS=1` is set.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use bytes::Bytes;
use layercast_core::{FlowSpec, Layer, LayerRate, Level, QosOption, Status};
use layercast_link::QueueConfig;
use layercast_media::Clip;
use layercast_net::{JoinCommand, JoinConfig, JoinEvent, JoinSummary, NodeConfig, Output};
use layercast_wire::Carriage;
use tokio::sync::{mpsc, oneshot};

use crate::common::{
    join, join_config, link_to, port, real_time, server, sink, source_of, start, switch,
};

/// Pictures of a rendition, of which the first of each half second is a key frame.
const PICTURES: usize = 250;
const KEY_EVERY: usize = 12;
/// What a receiver with room for the lowest rendition only has, in cells a second.
const NARROW: u32 = 590;

fn ffmpeg() -> Command {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-y", "-v", "warning", "-threads", "1"]);
    command
}

/// Three renditions of 10 s as programs of one transport stream; `None` without ffmpeg.
fn renditions() -> Option<&'static Bytes> {
    static MADE: OnceLock<Option<Bytes>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let key = format!("expr:not(mod(n,{KEY_EVERY}))");
        let output = ffmpeg()
            .args(["-f", "lavfi", "-i", "testsrc2=rate=25:size=320x180"])
            .args(["-frames:v", &PICTURES.to_string(), "-filter_complex"])
            .arg("[0:v]split=3[a][b][h];[a]scale=96:54[l];[b]scale=160:90[m]")
            .args(["-map", "[l]", "-map", "[m]", "-map", "[h]"])
            .args(["-c:v", "libx264", "-preset", "veryfast", "-bf", "2"])
            .args(["-x264-params", "scenecut=0:open-gop=0", "-g", "1000"])
            .args(["-force_key_frames", &key])
            .args(["-b:v:0", "60k", "-b:v:1", "150k", "-b:v:2", "400k"])
            .args(["-program", "program_num=1:st=0"])
            .args(["-program", "program_num=2:st=1"])
            .args(["-program", "program_num=3:st=2", "-f", "mpegts", "-"])
            .output();
        let output = output.ok().filter(|it| it.status.success());
        let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|value| value == "1");
        assert!(output.is_some() || !required, "ffmpeg makes renditions");
        if output.is_none() {
            eprintln!("skipped: ffmpeg makes no renditions");
        }
        output.map(|it| it.stdout.into())
    });
    made.as_ref()
}

/// The pictures of a stream: time stamp and checksum, scaled to one size. The decoder has nothing to say.
fn decoded(path: &Path, map: &str) -> Vec<(i64, String)> {
    let output = ffmpeg()
        .args(["-copyts", "-i"])
        .arg(path)
        .args(["-map", map, "-fps_mode", "passthrough"])
        .args(["-vf", "scale=160:90:flags=neighbor+bitexact+accurate_rnd"])
        .args(["-enc_time_base", "1:90000", "-f", "framemd5", "-"])
        .output()
        .expect("ffmpeg runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pictures = lines.filter_map(|line| {
        let mut fields = line.split(',').map(str::trim);
        let time = fields.nth(2)?.parse().ok()?;
        Some((time, fields.next_back()?.to_owned()))
    });
    pictures.collect()
}

/// A server of the renditions, which waits for two receivers.
fn film(data: &Bytes) -> (NodeConfig, FlowSpec) {
    let clip = Clip::of_renditions(std::slice::from_ref(data))
        .expect("renditions")
        .clip;
    let mut source = source_of(clip, "film", 1, Carriage::Datagrams);
    source.start_when_joined = 2;
    let spec = source.config.flow.spec.clone();
    let mut config = server(Carriage::Datagrams, 1);
    config.sources = vec![source];
    (config, spec)
}

/// A receiver that writes a transport stream.
fn viewer(switch: std::net::SocketAddr, name: &str, id: u32, file: &Path) -> JoinConfig {
    let mut sink = sink(name, id, Carriage::Datagrams);
    sink.asks_at_once = true;
    let mut config = join_config(switch, sink);
    config.output = Output::File(file.to_owned());
    config
}

/// Which rendition each written picture is of: all pictures from the first one on are there, once.
fn shown(file: &Path, whole: &Path) -> Vec<usize> {
    let programs = [0, 1, 2].map(|index| decoded(whole, &format!("0:v:{index}")));
    assert!(programs.iter().all(|it| it.len() == PICTURES));
    let program = |picture: &(i64, String)| programs.iter().position(|it| it.contains(picture));
    let pictures = decoded(file, "0:v");
    let of = pictures.iter().map(|picture| {
        program(picture).unwrap_or_else(|| panic!("a picture of no rendition at {}", picture.0))
    });
    let of = of.collect();
    let times: Vec<i64> = programs[0].iter().map(|(time, _)| *time).collect();
    let written: Vec<i64> = pictures.iter().map(|(time, _)| *time).collect();
    assert_eq!(times[times.len() - written.len()..], written);
    of
}

fn whole(name: &str, summary: &JoinSummary) {
    let receiver = &summary.receiver;
    let told = format!("{name}: {receiver:#?}\n{:#?}", summary.sink);
    assert_eq!(receiver.lost, Default::default(), "{told}");
    assert_eq!((receiver.late, receiver.off_boundary), (0, 0), "{told}");
    assert_eq!(
        (summary.malformed, summary.output.dropped),
        (0, 0),
        "{told}"
    );
}

#[real_time(tokio)]
async fn receivers_behind_one_switch_get_the_rendition_that_their_link_carries_and_no_other() {
    let Some(data) = renditions() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(format!("{name}.ts"));
    std::fs::write(file("all"), data).unwrap();
    let (config, spec) = film(data);
    let [low, middle] = [Level::BASE, Level::E1].map(|level| spec.rate_at(level).0);
    assert!((low..middle).contains(&NARROW), "{low} {middle}");
    let server = start(config).await;
    let mut config = switch("chuff", 2, Carriage::Datagrams, &[server.addr]);
    let mut narrow = port(Carriage::Datagrams, Some(NARROW.into()));
    // A key frame fills more than a quarter of the default of 256 cells, which is congestion.
    narrow.queue = QueueConfig::of_limit(2_000);
    link_to(&mut config, "narrow", narrow);
    let chuff = start(config).await;
    let wide = join(viewer(chuff.addr, "wide", 11, &file("wide")));
    let narrow = join(viewer(chuff.addr, "narrow", 12, &file("narrow")));
    let (wide, narrow) = (wide.end().await.unwrap(), narrow.end().await.unwrap());
    let (server, chuff) = (server.stop().await, chuff.stop().await);
    for (name, summary, level) in [("wide", &wide, 2), ("narrow", &narrow, 0)] {
        whole(name, summary);
        let own = Layer::ALL[level];
        for (layer, count) in summary.receiver.frames.iter() {
            // The program tables of all renditions are frames of the base layer.
            let right = match layer {
                _ if layer == own => *count >= PICTURES as u64,
                Layer::Base => true,
                _ => *count == 0,
            };
            assert!(right, "{name} {layer}: {:#?}", summary.receiver);
        }
        assert_eq!(
            shown(&file(name), &file("all")),
            vec![level; PICTURES],
            "{name}"
        );
    }
    // The line to the switch carries both, and not the one between.
    let sent = server.sources["film"].sent;
    assert!(sent.base >= 250, "{sent:?}");
    assert_eq!((sent.e1, sent.e2), (0, 250), "{sent:?}");
    assert_eq!((chuff.malformed, chuff.udp.send_failed), (0, 0));
}

/// Asks for the levels up to `top` of what the flow offers.
async fn ask(commands: &mpsc::Sender<JoinCommand>, spec: &FlowSpec, top: Level) {
    let mut spec = spec.clone();
    for layer in Layer::ALL.into_iter().filter(|it| !top.includes(*it)) {
        spec.layers[layer] = LayerRate::default();
    }
    let (reply, answer) = oneshot::channel();
    let option = QosOption::FlowSpec(spec);
    let sent = commands.send(JoinCommand::Request { option, reply }).await;
    sent.unwrap();
    assert_eq!(answer.await.unwrap(), Status::Ok);
}

#[real_time(tokio)]
async fn receivers_that_exchange_their_levels_go_on_with_the_other_rendition_at_a_key_frame() {
    let Some(data) = renditions() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(format!("{name}.ts"));
    std::fs::write(file("all"), data).unwrap();
    let (config, spec) = film(data);
    let server = start(config).await;
    let config = switch("chuff", 2, Carriage::Datagrams, &[server.addr]);
    let chuff = start(config).await;
    let mut joined = BTreeMap::new();
    for (name, id, level) in [("falls", 11, Level::FULL), ("rises", 12, Level::BASE)] {
        let mut config = viewer(chuff.addr, name, id, &file(name));
        config.sink.level = Level::FULL;
        config.sink.spec = (level == Level::BASE).then(|| {
            let mut spec = spec.clone();
            (spec.layers.e1, spec.layers.e2) = Default::default();
            spec
        });
        let (commands, queue) = mpsc::channel(1);
        config.commands = Some(queue);
        joined.insert(name, (join(config), commands));
    }
    let (falls, _) = joined.get_mut("falls").unwrap();
    for _ in 0..4 {
        let second = |event: &JoinEvent| matches!(event, JoinEvent::Second(_));
        falls.wait_for(second).await;
    }
    ask(&joined["falls"].1, &spec, Level::BASE).await;
    ask(&joined["rises"].1, &spec, Level::FULL).await;
    for (name, before, after) in [("falls", 2, 0), ("rises", 0, 2)] {
        let (receiver, _commands) = joined.remove(name).unwrap();
        let summary = receiver.end().await.unwrap();
        whole(name, &summary);
        let of = shown(&file(name), &file("all"));
        assert_eq!((of.len(), of[0]), (PICTURES, before), "{name}: {of:?}");
        assert_eq!(of[PICTURES - 1], after, "{name}: {of:?}");
        for (place, pair) in of.windows(2).enumerate() {
            let is_key = (place + 1) % KEY_EVERY == 0;
            assert!(pair[0] == pair[1] || is_key, "{name}: {place} {of:?}");
        }
        // A level at most is passed on the way.
        let changes = of.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!((1..=2).contains(&changes), "{name}: {of:?}");
    }
    server.stop().await;
    chuff.stop().await;
}
