//! METS nodes alone, with links of their own.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

use layercast_core::{AnyObserver, Observer, Time};

use crate::received::StreamOut;
use crate::scenario::Network;
use crate::stations::Stations;
use crate::summary::SimSummary;
use crate::wires::{Capture, Medium};

/// A network of layered flows that can be run.
///
/// ```
/// use std::ops::ControlFlow;
///
/// use layercast_core::Off;
/// use layercast_sim::{Outputs, Simulation};
/// use layercast_sim::scenario::Scenario;
///
/// // The narrow link fits the base layer and the first enhancement layer.
/// let text = r#"
///     name = "unequal"
///     duration = "12s"
///     node = [
///         { name = "server", kind = "host" }, { name = "switch", kind = "switch" },
///         { name = "wide", kind = "host" }, { name = "narrow", kind = "host" },
///     ]
///     link = [
///         { a = "server", b = "switch", rate = "100 Mbit/s", queue = "500 ms" },
///         { a = "switch", b = "wide", rate = "100 Mbit/s", queue = "500 ms" },
///         { a = "switch", b = "narrow", rate = { fits = "film", level = 1, spare = 0.1 }, queue = "500 ms", efci = 0.5 },
///     ]
///     flow = [{ name = "film", source = "server", clip = { synthetic = "canyon" }, frame_rate = 24, start = "1s", delay_max = "500ms" }]
///     receiver = [{ node = "wide", flow = "film" }, { node = "narrow", flow = "film" }]
/// "#;
/// let network = Scenario::from_toml(text, "".as_ref()).unwrap().validate().unwrap();
/// let summary = Simulation::new(network).run(&mut Off, Outputs::default(), |_| ControlFlow::Continue(())).unwrap();
/// let [wide, narrow] = &summary.flows[0].receivers[..] else { panic!() };
/// assert_eq!((wide.lost.base, narrow.lost.base), (0, 0));
/// assert!(wide.frames.base > 0 && narrow.frames.base > 0);
/// assert!(wide.frames.e2 > narrow.frames.e2);
/// ```
pub struct Simulation {
    net: Arc<Network>,
}

impl Simulation {
    /// A simulation of `net`, with the seed it was resolved with.
    pub fn new(net: Network) -> Simulation {
        Simulation { net: Arc::new(net) }
    }

    /// Runs to the end, or tells why an output could not be written.
    ///
    /// `obs` sees every machine; `progress` is called once for each second of the run and may break it off: the outputs are
    /// then complete up to that second, and so is the summary, which says so in `sim_seconds`.
    pub fn run<'a>(
        &self,
        obs: &'a mut (dyn Observer + Send),
        outputs: Outputs<'a>,
        mut progress: impl FnMut(Time) -> ControlFlow<()>,
    ) -> io::Result<SimSummary> {
        self.run_watched(obs, outputs, &mut progress)
    }

    fn run_watched<'a>(
        &self,
        obs: &'a mut (dyn Observer + Send),
        outputs: Outputs<'a>,
        progress: &mut dyn FnMut(Time) -> ControlFlow<()>,
    ) -> io::Result<SimSummary> {
        let mut stations = Stations::new(self.net.clone(), AnyObserver::new(obs), Medium::link);
        if let Some(out) = outputs.pcap {
            stations.capture = Some(Capture::new(out, &self.net, &stations.wires)?);
        }
        stations.outputs = outputs.streams.into_iter().map(StreamOut::new).collect();
        stations.plan_scenario();
        stations.now = stations.run(Time::ZERO + self.net.duration, progress);
        let summary = stations.summary();
        for out in stations.outputs {
            out.finish()?;
        }
        match stations.capture {
            Some(capture) => capture.finish().map(|()| summary),
            None => Ok(summary),
        }
    }
}

/// What a run writes beside its summary.
#[derive(Default)]
pub struct Outputs<'a> {
    /// Gets a pcapng of every link direction.
    pub pcap: Option<&'a mut (dyn io::Write + Send)>,
    /// Get the streams that the receivers play, as these would write them; in the order of the scenario.
    pub streams: Vec<&'a mut (dyn io::Write + Send)>,
}
