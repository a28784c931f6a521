//! From an index to a decision: levels of a service, admission, rates (specs/available-bandwidth.md 2.6, 2.7).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::outcome::{LOSSY, Outcome};

/// A threshold below this many times the floor of the clock is refused.
const FLOORS: f64 = 3.0;

/// A level of quality that a service can have.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceLevel {
    /// Its name.
    pub name: String,
    /// The index is below this, milliseconds.
    pub xi_max_ms: f64,
    /// The queue is below this, milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_max_ms: Option<f64>,
}

/// A service and its levels, the best one first.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Levels.
    pub level: Vec<ServiceLevel>,
}

/// Services by name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceMap {
    /// Services.
    pub service: Vec<Service>,
}

/// Why a table of services cannot be used.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum ServiceError {
    /// There is none.
    #[error("the table has no service: add [[service]] with a name and a [[service.level]]")]
    Empty,
    /// A service has no level.
    #[error("service {0} has no level: add [[service.level]] with name and xi_max_ms")]
    NoLevel(String),
    /// Two of one name.
    #[error("service {0} is there twice: remove one of them")]
    Twice(String),
    /// A threshold is none.
    #[error(
        "service {service}, level {level}: thresholds are above 0, and each is above that of the level before"
    )]
    Threshold {
        /// Service.
        service: String,
        /// Level.
        level: String,
    },
}

/// Why a level is not granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Error)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The index is not below the threshold.
    #[error("the index is above the threshold")]
    Asynchronous,
    /// The queue is not below its threshold.
    #[error("the queue is above its threshold")]
    Queue,
    /// Five percent of the probes or more are lost: one level less than the index permits.
    #[error("5 % of the probes or more are lost")]
    Loss,
    /// The threshold is too close to what the clock of the receiver can resolve.
    #[error("the threshold is below three times the resolution of the receiver's clock")]
    Clock,
    /// No signal.
    #[error("a fifth of the probes or more is lost, or none arrives")]
    NoSignal,
    /// Nothing is known, or not any more.
    #[error("there is no current estimate")]
    Unknown,
}

impl Default for ServiceMap {
    /// The table of the paper: `nv` video over 1.5 Mbit/s with a period of 10 ms.
    fn default() -> ServiceMap {
        let levels = [("best", 12.0), ("medium", 20.0), ("sufficient", 25.0)];
        let level = levels.map(|(name, xi_max_ms)| ServiceLevel {
            name: name.to_owned(),
            xi_max_ms,
            queue_max_ms: None,
        });
        ServiceMap {
            service: vec![Service {
                name: "nv".to_owned(),
                level: level.to_vec(),
            }],
        }
    }
}

impl ServiceMap {
    /// Whether it can be used.
    ///
    /// # Errors
    /// The first entry that cannot.
    pub fn check(&self) -> Result<(), ServiceError> {
        if self.service.is_empty() {
            return Err(ServiceError::Empty);
        }
        for (place, service) in self.service.iter().enumerate() {
            if self.service[..place]
                .iter()
                .any(|it| it.name == service.name)
            {
                return Err(ServiceError::Twice(service.name.clone()));
            }
            if service.level.is_empty() {
                return Err(ServiceError::NoLevel(service.name.clone()));
            }
            let mut before = 0.0;
            for level in &service.level {
                let is_queue = level.queue_max_ms.is_none_or(|it| it > 0.0);
                if !(level.xi_max_ms > before && level.xi_max_ms.is_finite() && is_queue) {
                    let (service, level) = (service.name.clone(), level.name.clone());
                    return Err(ServiceError::Threshold { service, level });
                }
                before = level.xi_max_ms;
            }
        }
        Ok(())
    }

    /// The service of a name.
    pub fn get(&self, name: &str) -> Option<&Service> {
        self.service.iter().find(|it| it.name == name)
    }
}

impl Service {
    /// The place of a level.
    pub fn place(&self, level: &str) -> Option<usize> {
        self.level.iter().position(|it| it.name == level)
    }

    /// The best level that an outcome permits, or why there is none.
    ///
    /// # Errors
    /// No level is permitted.
    pub fn grade(&self, outcome: &Outcome) -> Result<usize, Refusal> {
        let mut why = Refusal::Unknown;
        for place in 0..self.level.len() {
            match self.permits(place, outcome) {
                Ok(()) => return Ok(place),
                Err(refusal) => why = refusal,
            }
        }
        Err(why)
    }

    /// Whether an outcome permits a level.
    ///
    /// # Errors
    /// It does not.
    pub fn permits(&self, place: usize, outcome: &Outcome) -> Result<(), Refusal> {
        let estimate = match outcome {
            Outcome::Estimate(estimate) => estimate,
            Outcome::NoSignal { .. } => return Err(Refusal::NoSignal),
            Outcome::Insufficient { .. } => return Err(Refusal::Unknown),
        };
        let meets = |level: &ServiceLevel| {
            if level.xi_max_ms < FLOORS * estimate.floor_ms {
                return Err(Refusal::Clock);
            }
            if estimate.xi_ms >= level.xi_max_ms {
                return Err(Refusal::Asynchronous);
            }
            match (level.queue_max_ms, estimate.queue_ms) {
                (Some(most), Some(queue)) if queue >= most => Err(Refusal::Queue),
                (Some(_), None) => Err(Refusal::Unknown),
                _ => Ok(()),
            }
        };
        meets(&self.level[place])?;
        // With such a loss, a level needs that the one above it is met, too.
        let capped = estimate.loss_ppm >= LOSSY;
        match place.checked_sub(1) {
            _ if !capped => Ok(()),
            Some(above) if meets(&self.level[above]).is_ok() => Ok(()),
            _ => Err(Refusal::Loss),
        }
    }
}

/// A change of a running service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GateEvent {
    /// Its level was not permitted by the first number of estimates in a row.
    QualityLost,
    /// Its level is permitted again, by the second number of estimates in a row.
    QualityBack,
}

/// Admits a service at a level and watches whether the path still carries it.
#[derive(Clone, Debug)]
pub struct AdmissionGate {
    service: Service,
    place: usize,
    /// Estimates in a row after which the quality is lost, and is back.
    after: (u32, u32),
    last: Option<Outcome>,
    admitted: bool,
    lost: bool,
    row: u32,
}

impl AdmissionGate {
    /// Estimates in a row that a running service is given up and taken back after.
    pub const AFTER: (u32, u32) = (2, 3);

    /// A gate for a level of a service; `None`: there is no such level.
    pub fn new(service: Service, level: &str, after: (u32, u32)) -> Option<AdmissionGate> {
        let place = service.place(level)?;
        Some(AdmissionGate {
            service,
            place,
            after,
            last: None,
            admitted: false,
            lost: false,
            row: 0,
        })
    }

    /// Asks for admission: it is decided by the last outcome.
    ///
    /// # Errors
    /// The level is not permitted.
    pub fn admit(&mut self) -> Result<(), Refusal> {
        let last = self.last.as_ref().ok_or(Refusal::Unknown)?;
        self.service.permits(self.place, last)?;
        (self.admitted, self.lost, self.row) = (true, false, 0);
        Ok(())
    }

    /// Whether the service runs and has its quality.
    pub fn is_good(&self) -> bool {
        self.admitted && !self.lost
    }

    /// The level of a service that it is for.
    pub fn level(&self) -> &ServiceLevel {
        &self.service.level[self.place]
    }

    /// Takes an outcome; `None`: the last one is too old. Without a signal the quality is lost immediately.
    pub fn on_outcome(&mut self, outcome: Option<Outcome>) -> Option<GateEvent> {
        self.last = outcome;
        if !self.admitted {
            return None;
        }
        let permitted = outcome.is_some_and(|it| self.service.permits(self.place, &it).is_ok());
        if permitted != self.lost {
            self.row = 0;
            return None;
        }
        self.row += 1;
        let (out, back) = self.after;
        let is_gone = matches!(outcome, None | Some(Outcome::NoSignal { .. }));
        let enough = match self.lost {
            true => back,
            false if is_gone => 1,
            false => out,
        };
        if self.row < enough {
            return None;
        }
        self.row = 0;
        self.lost = !self.lost;
        Some(match self.lost {
            true => GateEvent::QualityLost,
            false => GateEvent::QualityBack,
        })
    }
}

/// Lowers and raises the rate of all controlled sources alike.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RateController {
    /// The index from which rates are lowered, milliseconds.
    threshold_ms: f64,
    least: f64,
    share: f64,
}

impl RateController {
    /// Factor of each outcome at or above the threshold.
    pub const DOWN: f64 = 0.85;
    /// Part of the nominal rate that each outcome below it adds.
    pub const UP: f64 = 0.05;

    /// A controller that never goes below the part `least` of the nominal rate.
    pub fn new(threshold_ms: f64, least: f64) -> RateController {
        RateController {
            threshold_ms,
            least: least.clamp(0.0, 1.0),
            share: 1.0,
        }
    }

    /// The part of their nominal rates that all sources send at.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Takes an outcome; without enough lags the rate stays.
    pub fn on_outcome(&mut self, outcome: &Outcome) {
        let share = match outcome {
            Outcome::Insufficient { .. } => return,
            Outcome::Estimate(it) if it.xi_ms < self.threshold_ms => self.share + Self::UP,
            _ => self.share * Self::DOWN,
        };
        self.share = share.clamp(self.least, 1.0);
    }
}
