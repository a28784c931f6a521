//! What a server says of the flow that it offers, beside what happens: that a path carries less than the base layer needs, and
//! that the core through which all joins go is not there.

use layercast_core::{Level, Rate};
use layercast_net::{NodeConfig, NodeEvent};

/// Seconds in which the core may connect before the command says that it is not there.
const PATIENCE: u32 = 5;

/// The flow of a server that has one.
#[derive(Default)]
pub struct Offered {
    flow: String,
    /// What its base layer needs; none: that changes with the media, or there is no flow.
    base: Option<Rate>,
    /// Its core, if that is another node that is not connected.
    core: Option<String>,
    is_core_up: bool,
    seconds: u32,
}

impl Offered {
    /// The flow of a node; the base layer of live media is measured while they run.
    pub fn of(config: &NodeConfig, is_live: bool) -> Offered {
        let [source] = &config.sources[..] else {
            return Offered::default();
        };
        let flow = &source.config.flow;
        Offered {
            flow: flow.name.clone(),
            base: (!is_live).then(|| flow.spec.rate_at(Level::BASE).rate()),
            core: flow.core.clone().filter(|it| *it != config.switch.name),
            ..Offered::default()
        }
    }

    /// Takes an event of the node; gives what to add to the words for it.
    pub fn note(&mut self, event: &NodeEvent) -> Option<String> {
        match event {
            NodeEvent::PeerUp { name, .. } if self.core.as_ref() == Some(name) => {
                self.is_core_up = true;
            }
            NodeEvent::PeerDown { name, .. } if self.core.as_ref() == Some(name) => {
                (self.is_core_up, self.seconds) = (false, 0);
            }
            NodeEvent::Path { rate, .. } => {
                let base = self.base.filter(|base| rate < base)?;
                return Some(format!(
                    ", and the base layer of {} needs {base}: its frames queue, and no playout delay helps",
                    self.flow
                ));
            }
            _ => {}
        }
        None
    }

    /// A second has passed; says once that the core is not there.
    pub fn second(&mut self) -> Option<String> {
        let core = self.core.as_ref().filter(|_| !self.is_core_up)?;
        self.seconds = self.seconds.saturating_add(1);
        (self.seconds == PATIENCE).then(|| {
            format!(
                "warning: no neighbour is called {core}, the core of {} (--core): joins get no answer unless a switch of that \
                 name is behind another neighbour; start layercast switch --name {core}, or leave --core out",
                self.flow
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Offered {
        Offered {
            flow: "film".into(),
            base: Some(Rate::from_bps(774_000)),
            core: Some("hub".into()),
            ..Offered::default()
        }
    }

    #[test]
    fn a_core_that_is_not_there_is_named_once() {
        let mut film = offered();
        let said: Vec<_> = (0..20).filter_map(|_| film.second()).collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("no neighbour is called hub"), "{said:?}");
        let mut film = offered();
        let addr = ([127, 0, 0, 1], 1).into();
        for name in ["ann", "hub"] {
            film.note(&NodeEvent::PeerUp {
                name: name.into(),
                addr,
                upstream: false,
            });
        }
        assert_eq!((0..20).find_map(|_| film.second()), None);
        let (name, reason) = ("hub".to_owned(), "it left".to_owned());
        film.note(&NodeEvent::PeerDown { name, reason });
        assert!((0..20).find_map(|_| film.second()).is_some());
    }

    #[test]
    fn a_path_that_carries_less_than_the_base_layer_is_told_with_both_rates() {
        let mut film = offered();
        let mut said = |kbps: u64| {
            film.note(&NodeEvent::Path {
                neighbour: "ann".into(),
                rate: Rate::from_bps(kbps * 1_000),
            })
        };
        assert_eq!(said(800), None);
        let text = said(376).unwrap();
        assert!(
            text.contains("the base layer of film needs 774.0 kbit/s"),
            "{text}"
        );
    }
}
