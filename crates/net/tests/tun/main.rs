//! Our TCP on a TUN device, with the kernel's TCP on the other side, in a network namespace of its
//! own. Skips with a printed reason where namespaces or TUN devices cannot be had.
//!
//! The outer test starts this binary again under `unshare`; the inner ones are ignored outside.

mod device;
mod kernel;

use std::io::{Read, Write};
use std::process::Command;
use std::thread;
use std::time::Duration;

use layercast_core::Span;
use layercast_link::{Jitter, LinkConfig, Loss};
use layercast_tcp::{Failure, Profile, TcpConfig, TcpEvent, Variant};

use device::{Bench, KERNEL, PORT};
use kernel::{Ending, pattern};

/// Bytes of the long transfers each way: 100 MiB if `LAYERCAST_LONG=1`, as `make interop` says.
fn long() -> usize {
    let long = std::env::var("LAYERCAST_LONG").is_ok_and(|v| v == "1");
    if long { 100 << 20 } else { 8 << 20 }
}

#[test]
fn our_tcp_talks_to_the_kernels() {
    let inside = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", program]);
        command
    };
    let missing = if !std::path::Path::new("/dev/net/tun").exists() {
        Some("there is no /dev/net/tun".to_owned())
    } else {
        let tun = ["tuntap", "add", "mode", "tun", "name", "lcprobe"];
        match inside("ip").args(tun).output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Some(format!("unshare does not run: {error}")),
        }
    };
    if let Some(reason) = missing {
        println!("skipped: no TUN device in a network namespace: {reason}");
        return;
    }
    let program = std::env::current_exe().expect("this binary");
    let output = inside(program.to_str().expect("a path in UTF-8"))
        .args(["inside::", "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .expect("unshare ran just now");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    println!("{out}");
    assert!(output.status.success(), "{out}\n{err}");
}

/// What the way between our TCP and the kernel's does to packets.
fn bad_weather() -> LinkConfig {
    LinkConfig {
        delay: Span::from_us(500),
        jitter: Jitter::Uniform {
            max: Span::from_us(40),
        },
        reorder: true,
        loss: Loss::Bernoulli { p: 0.002 },
        duplicate: 0.002,
    }
}

fn fair_weather() -> LinkConfig {
    LinkConfig {
        delay: Span::from_us(500),
        ..LinkConfig::default()
    }
}

mod inside {
    use super::*;

    #[test]
    #[ignore = "runs inside a network namespace"]
    fn a_hundred_megabytes_both_ways() {
        for (weather, name) in [(fair_weather(), "fair"), (bad_weather(), "bad")] {
            let mut bench = Bench::new(TcpConfig::from(Profile::Modern), weather);
            let server = kernel::exchange(long());
            let id = bench.connect(PORT);
            let sent = bench.exchange(id, long());
            server.join().expect("the kernel's side");
            println!(
                "{name}: {} MiB each way simultaneously, {sent}",
                long() >> 20
            );
            bench.close(id);
        }
    }

    #[test]
    #[ignore = "runs inside a network namespace"]
    fn every_variant_and_profile() {
        let modern = |variant| TcpConfig {
            variant,
            ..TcpConfig::from(Profile::Modern)
        };
        let configs = [
            ("Tahoe", modern(Variant::Tahoe)),
            ("Reno", modern(Variant::Reno)),
            ("NewReno", modern(Variant::NewReno)),
            ("SACK", modern(Variant::Sack)),
            ("CUBIC", modern(Variant::Cubic)),
            ("4.4BSD-Lite", TcpConfig::from(Profile::Bsd44Lite)),
            ("10 ms", TcpConfig::from(Profile::Tick10)),
        ];
        for (name, config) in configs {
            let mut bench = Bench::new(config, fair_weather());
            let server = kernel::exchange(2 << 20);
            let id = bench.connect(PORT);
            let sent = bench.exchange(id, 2 << 20);
            server.join().expect("the kernel's side");
            println!("{name}: 2 MiB each way simultaneously, {sent}");
            bench.close(id);
        }
    }

    #[test]
    #[ignore = "runs inside a network namespace"]
    fn the_kernel_opens_the_connection() {
        let mut bench = Bench::new(TcpConfig::from(Profile::Modern), bad_weather());
        bench.endpoint.listen(PORT, 4).expect("a free port");
        let client = thread::spawn(|| kernel::dial(3 << 20));
        let id = bench.accept(PORT);
        let sent = bench.exchange(id, 3 << 20);
        client.join().expect("the kernel's side");
        println!("opened by the kernel: 3 MiB each way simultaneously, {sent}");
        bench.close(id);
    }

    #[test]
    #[ignore = "runs inside a network namespace"]
    fn half_closes() {
        for weather in [fair_weather(), bad_weather()] {
            // We close first, the kernel answers until it has said everything.
            let mut bench = Bench::new(TcpConfig::from(Profile::Modern), weather);
            let server = kernel::serve(|mut stream| {
                let mut question = Vec::new();
                stream.read_to_end(&mut question).expect("the question");
                assert_eq!(question, pattern(0, 10_000));
                stream.write_all(&pattern(0, 300_000)).expect("the answer");
            });
            let id = bench.connect(PORT);
            bench.write_all(id, &pattern(0, 10_000));
            bench.endpoint.shutdown(id).expect("open");
            assert_eq!(bench.read_to_end(id), pattern(0, 300_000));
            server.join().expect("the kernel's side");
            bench.close(id);
            // The kernel closes first, we answer.
            let server = kernel::serve(|mut stream| {
                stream.write_all(&pattern(0, 10_000)).expect("the question");
                stream.shutdown(std::net::Shutdown::Write).expect("open");
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).expect("the answer");
                assert_eq!(answer, pattern(0, 300_000));
            });
            let id = bench.connect(PORT);
            assert_eq!(bench.read_to_end(id), pattern(0, 10_000));
            bench.write_all(id, &pattern(0, 300_000));
            bench.endpoint.shutdown(id).expect("open");
            bench.wait("both sides closed", |bench| {
                bench.was_told(TcpEvent::Closed(id))
            });
            server.join().expect("the kernel's side");
            bench.close(id);
        }
    }

    #[test]
    #[ignore = "runs inside a network namespace"]
    fn resets() {
        let mut bench = Bench::new(TcpConfig::from(Profile::Modern), fair_weather());
        // There is no listener.
        let id = bench.connect_to(KERNEL, 4_999);
        bench.wait("a refusal", |bench| {
            bench.was_told(TcpEvent::Failed(id, Failure::Refused))
        });
        // The kernel resets.
        let server = kernel::serve(kernel::reset);
        let id = bench.connect(PORT);
        bench.wait("a reset", |bench| {
            bench.was_told(TcpEvent::Failed(id, Failure::Reset))
        });
        server.join().expect("the kernel's side");
        // We reset.
        let server = kernel::serve(|mut stream| {
            let error = stream.read(&mut [0; 10]).expect_err("a reset");
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        });
        let id = bench.connect(PORT);
        bench.endpoint.abort(id).expect("open");
        bench.wait_for_thread(server);
        // Both close simultaneously, many times.
        for _ in 0..20 {
            let server = kernel::serve(drop);
            let id = bench.connect(PORT);
            bench.endpoint.shutdown(id).expect("open");
            bench.wait("both sides closed", |bench| {
                bench.was_told(TcpEvent::Closed(id))
            });
            bench.close(id);
            server.join().expect("the kernel's side");
        }
        // The kernel calls a port without a listener.
        let client = thread::spawn(|| kernel::try_dial(4_998));
        let ending = bench.wait_for_thread(client);
        assert_eq!(ending, Ending::Refused);
    }

    #[test]
    #[ignore = "runs inside a network namespace"]
    fn curl_reads_a_page_from_us() {
        if Command::new("curl").arg("--version").output().is_err() {
            println!("skipped: there is no curl");
            return;
        }
        let mut bench = Bench::new(TcpConfig::from(Profile::Modern), bad_weather());
        bench.endpoint.listen(80, 4).expect("a free port");
        let curl = thread::spawn(|| {
            let url = format!("http://{}/page", device::OURS);
            let seconds = Duration::from_secs(60).as_secs().to_string();
            Command::new("curl")
                .args(["-sS", "--max-time", &seconds, &url])
                .output()
        });
        let id = bench.accept(80);
        let page = vec![b'x'; 5 << 20];
        let mut request = Vec::new();
        bench.wait("a request", |bench| {
            request.extend(bench.read(id));
            request.ends_with(b"\r\n\r\n")
        });
        let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
        bench.write_all(id, head.as_bytes());
        bench.write_all(id, &page);
        bench.endpoint.shutdown(id).expect("open");
        let output = bench.wait_for_thread(curl).expect("curl ran");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert_eq!(output.stdout.len(), page.len());
        bench.close(id);
    }
}
