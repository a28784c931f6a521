//! tshark opens what the simulator writes.

use std::process::{Command, Stdio};

use crate::common::{CHAIN, capture, scenario};
use layercast_wire::Carriage;

/// Lines of `tshark -r FILE ARGS`; `None` where there is no tshark and none is required.
fn tshark(pcap: &[u8], name: &str, args: &[&str]) -> Option<Vec<String>> {
    let required = std::env::var_os("LAYERCAST_REQUIRE_TOOLS").is_some();
    let there = Command::new("tshark")
        .arg("-v")
        .stdout(Stdio::null())
        .status();
    if there.is_err() && !required {
        return None;
    }
    let path = std::env::temp_dir().join(format!("layercast-{}-{name}.pcapng", std::process::id()));
    std::fs::write(&path, pcap).unwrap();
    let output = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args(args)
        .output();
    std::fs::remove_file(&path).unwrap();
    let output = output.unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

#[test]
fn datagrams_are_udp_between_documentation_addresses() {
    let mut scenario = scenario(CHAIN);
    scenario.duration = layercast_core::Span::from_secs(3);
    let (summary, pcap) = capture(&scenario);
    let args = [
        "-T",
        "fields",
        "-e",
        "ip.src",
        "-e",
        "udp.length",
        "-e",
        "_ws.malformed",
    ];
    let Some(lines) = tshark(&pcap, "udp", &args) else {
        return;
    };
    let sent: u64 = summary.queues.iter().map(|queue| queue.link.sent).sum();
    assert_eq!(lines.len() as u64, sent);
    assert!(
        lines.iter().all(|line| line.starts_with("192.0.2.")),
        "{:?}",
        lines.first()
    );
    assert!(!lines.iter().any(|line| line.contains("alformed")));
}

#[test]
fn cells_are_atm() {
    let mut scenario = scenario(CHAIN);
    scenario.carriage = Carriage::Cells;
    scenario.duration = layercast_core::Span::from_ms(1_500);
    let (summary, pcap) = capture(&scenario);
    let args = ["-T", "fields", "-e", "frame.protocols", "-e", "atm.vci"];
    let Some(lines) = tshark(&pcap, "atm", &args) else {
        return;
    };
    let sent: u64 = summary.queues.iter().map(|queue| queue.link.sent).sum();
    assert_eq!(lines.len() as u64, sent);
    assert!(
        lines.iter().all(|line| line.starts_with("erf:atm")),
        "{:?}",
        lines.first()
    );
}
