//! TUN and TAP devices, and the network namespaces they are put into.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::process::Command;

use tun_rs::{DeviceBuilder, Layer, SyncDevice};

use crate::failure::{Failure, Outcome};

/// What a device is to be.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its name.
    pub name: &'a str,
    /// Whether it takes Ethernet frames.
    pub is_tap: bool,
    /// The address of its host.
    pub address: Ipv4Addr,
    /// Largest IP packet.
    pub mtu: u32,
}

/// The namespaces that we made; they go when this does.
#[derive(Debug, Default)]
pub struct Namespaces {
    made: Vec<String>,
    devices: u32,
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.made {
            if let Err(failure) = ip(&["netns", "del", name]) {
                eprintln!("{failure}");
            }
        }
    }
}

impl Namespaces {
    /// Makes a device with its address, its routes, and the namespace it is in.
    pub fn device(&mut self, wanted: Wanted<'_>, namespace: &str) -> Result<SyncDevice, Failure> {
        let Wanted {
            name, address, mtu, ..
        } = wanted;
        if !self.made.iter().any(|made| made == namespace) {
            ip(&["netns", "add", namespace]).map_err(|failure| {
                failure.hint(format!(
                    "--namespaces needs root (sudo); a namespace that an earlier run left goes with: ip netns del {namespace}"
                ))
            })?;
            self.made.push(namespace.to_owned());
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
        }
        // Made here and moved: a device stays with its opener, in whatever namespace.
        self.devices += 1;
        let here = format!("lc{}-{}", std::process::id(), self.devices);
        let device = open(&here, wanted.is_tap, true)?;
        let moved = ["link", "set", &here, "netns", namespace, "name", name];
        ip(&moved)?;
        let (address, mtu) = (format!("{address}/32"), mtu.to_string());
        let metric = self.devices.to_string();
        for args in [
            &["addr", "add", &address, "dev", name][..],
            &["link", "set", name, "mtu", &mtu, "up"],
            &["route", "add", "default", "dev", name, "metric", &metric],
        ] {
            ip(&[&["-n", namespace][..], args].concat())?;
        }
        Ok(device)
    }
}

/// Opens a device that is here, or makes one; its address is its user's concern.
pub fn attach(wanted: Wanted<'_>) -> Result<SyncDevice, Failure> {
    open(wanted.name, wanted.is_tap, false)
}

fn open(name: &str, is_tap: bool, is_new: bool) -> Result<SyncDevice, Failure> {
    let layer = if is_tap { Layer::L2 } else { Layer::L3 };
    let builder = DeviceBuilder::new().name(name).layer(layer);
    let builder = match is_new {
        true => builder.enable(false),
        false => builder.inherit_enable_state(),
    };
    let device = builder.build_sync().and_then(|device| {
        device.set_nonblocking(true)?;
        Ok(device)
    });
    let mode = if is_tap { "tap" } else { "tun" };
    device.map_err(|error| {
        let failure = Failure::new(format!("no {mode} device {name}: {error}"));
        match error.kind() {
            ErrorKind::ResourceBusy => failure.hint(
                "a program has it already; --namespaces puts each device into a namespace of its own",
            ),
            ErrorKind::NotFound => failure.hint("load the driver: modprobe tun"),
            ErrorKind::PermissionDenied => failure.hint(format!(
                "run it as root, or have root make the device for you: ip tuntap add dev {name} mode {mode} user $USER"
            )),
            _ => failure,
        }
    })
}

fn ip(args: &[&str]) -> Outcome {
    let output = Command::new("ip").args(args).output().map_err(|error| {
        Failure::new(format!("ip does not run: {error}")).hint("install iproute2")
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!(
        "ip {}: {}",
        args.join(" "),
        said.trim()
    )))
}
