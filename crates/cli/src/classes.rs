//! `layercast probe --classes`: which octets of a stream a network can do without.

use layercast_core::DataClass;
use layercast_media::{
    ClassCensus, ClassReport, ClassStats, ClassifierConfig, GopStructure, VideoPictures,
};

use crate::args;
use crate::failure::{Failure, Outcome};
use crate::output::{Table, count, print, print_json};
use crate::probe;

/// Runs the command.
pub fn run(args: &args::Probe) -> Outcome {
    let data = probe::read_bytes(&args.file, false, args.reading.via)?;
    let mut report = ClassCensus::of(&data, ClassifierConfig::default())
        .map_err(|error| Failure::of(&args.file, error))?;
    if !args.pictures {
        // A film has hundreds of thousands.
        report.videos.iter_mut().for_each(|it| it.sequence = None);
    }
    match args.json {
        true => print_json(&report),
        false => print(&format!("{}\n{}", args.file.display(), describe(&report))),
    }
}

/// The report as tables.
fn describe(report: &ClassReport) -> String {
    let mut table = Table::new(&[
        "class", "what", "octets", "share", "packets", "share", "cells", "share",
    ]);
    let sum = |of: fn(&layercast_media::ClassShare) -> Option<u64>| -> u64 {
        report.classes.iter().filter_map(of).sum()
    };
    let (packets, cells) = (sum(|it| it.packets), sum(|it| it.cells));
    for share in &report.classes {
        let part = |part: Option<u64>, whole: u64| match part {
            Some(part) => [
                part.to_string(),
                percent(100.0 * part as f64 / whole.max(1) as f64),
            ],
            None => ["-".to_owned(), "-".to_owned()],
        };
        let [of_packets, packets_percent] = part(share.packets, packets);
        let [of_cells, cells_percent] = part(share.cells, cells);
        table.row([
            share.class.letter().to_string(),
            what(share.class).to_owned(),
            share.octets.to_string(),
            percent(share.octets_percent),
            of_packets,
            packets_percent,
            of_cells,
            cells_percent,
        ]);
    }
    let mut text = format!("\n{}", table.render());
    for video in &report.videos {
        text.push_str(&pictures(video));
    }
    if let Some(stats) = &report.transport {
        text.push_str(&unread(stats));
    }
    if report.skipped_octets > 0 {
        text.push_str(&format!(
            "\n  note: {} between packets\n",
            count(report.skipped_octets, "octet")
        ));
    }
    text
}

fn percent(value: f64) -> String {
    format!("{value:.1} %")
}

fn what(class: DataClass) -> &'static str {
    match class {
        DataClass::System => "headers, tables, sound",
        DataClass::Intra => "I pictures",
        DataClass::Predicted => "P pictures",
        DataClass::Bidirectional => "B pictures, padding",
    }
}

/// The pictures of a video and their order.
fn pictures(video: &VideoPictures) -> String {
    let title = match video.pid {
        Some(pid) => format!("video {pid:#06x}"),
        None => "video".to_owned(),
    };
    let mut table = Table::new(&[&title, "pictures", "mean octets", "largest"]);
    for sizes in &video.pictures {
        table.row([
            sizes.class.letter().to_string(),
            sizes.count.to_string(),
            format!("{:.0}", sizes.mean_octets),
            sizes.max_octets.to_string(),
        ]);
    }
    let gop = video.gop.as_ref().map_or_else(String::new, gop);
    format!("\n{}{gop}", table.render())
}

fn gop(gop: &GopStructure) -> String {
    let pictures = match gop.min_pictures == gop.max_pictures {
        true => gop.min_pictures.to_string(),
        false => format!("{} to {}", gop.min_pictures, gop.max_pictures),
    };
    format!(
        "\n  {} of {pictures} pictures (N), references {} apart (M); {} as sent: {}\n",
        count(gop.count, "GOP"),
        gop.reference_distance,
        percent(gop.pattern_percent),
        gop.pattern
    )
}

/// What could not be read, as lines below the tables.
fn unread(stats: &ClassStats) -> String {
    let notes = [
        (
            stats.scrambled_octets,
            "octet",
            "scrambled payload, taken for class I",
        ),
        (
            stats.unread_octets,
            "octet",
            "video of a codec whose pictures are not distinguished, taken for class I",
        ),
        (
            stats.damaged_packets,
            "packet",
            "video with the transport error indicator",
        ),
        (
            stats.repeated_packets,
            "packet",
            "video that came twice, taken for class B",
        ),
        (
            stats.unknown_picture_types,
            "picture",
            "a coding type that MPEG-2 does not have, taken for class I",
        ),
    ];
    notes
        .into_iter()
        .filter(|(number, ..)| *number > 0)
        .map(|(number, thing, what)| format!("\n  note: {} of {what}\n", count(number, thing)))
        .collect()
}
