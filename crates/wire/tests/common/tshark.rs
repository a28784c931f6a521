//! What tshark says of a capture; the tests of several crates ask it.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::PathBuf;
use std::process::Command;

/// The output of tshark; `None` where it is not installed and `LAYERCAST_REQUIRE_TOOLS` is not set.
pub fn tshark(name: &str, pcap: &[u8], args: &[&str]) -> Option<String> {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.pcapng"));
    std::fs::write(&file, pcap).unwrap();
    let mut command = Command::new("tshark");
    match command.arg("-r").arg(&file).args(args).output() {
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "tshark: {stderr}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            let required = std::env::var("LAYERCAST_REQUIRE_TOOLS").is_ok_and(|v| v == "1");
            assert!(!required, "tshark does not run: {error}");
            println!("skipped: tshark does not run: {error}");
            None
        }
    }
}

/// Fields of each packet, with the checksums of IP, TCP and UDP looked at.
pub fn fields(name: &str, pcap: &[u8], fields: &[&str]) -> Option<Vec<Vec<String>>> {
    let checks = ["ip", "tcp", "udp"].map(|it| format!("{it}.check_checksum:TRUE"));
    let mut args = vec!["-T", "fields"];
    args.extend(checks.iter().flat_map(|check| ["-o", check]));
    args.extend(fields.iter().flat_map(|field| ["-e", *field]));
    let text = tshark(name, pcap, &args)?;
    let fields = |line: &str| line.split('\t').map(str::to_owned).collect();
    Some(text.lines().map(fields).collect())
}

/// Fails if the dissector of XTP finds anything wrong.
pub fn no_complaint_of_xtp(name: &str, pcap: &[u8]) {
    let text = tshark(name, pcap, &["-V", "-O", "xtp"]).unwrap_or_default();
    let complaints = [
        "bogus",
        "malformed",
        "unsupported",
        "incorrect",
        "unknown xtp",
        "unknown pformat",
    ];
    let lower = text.to_lowercase();
    let seen: Vec<_> = complaints.iter().filter(|it| lower.contains(*it)).collect();
    assert!(seen.is_empty(), "{seen:?} in\n{text}");
}
