//! `--trace`: what the machines of an internetwork do.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use layercast_core::{Observer, Record};

use crate::failure::{Failure, Outcome};
use crate::trace::Trace;

/// A trace of which the simulation has one handle and the command the other.
#[derive(Clone)]
pub struct SharedTrace(Arc<Mutex<Option<Trace>>>);

impl SharedTrace {
    /// Opens the file at `path`.
    pub fn open(path: &Path, title: &str) -> Result<SharedTrace, Failure> {
        let trace = Trace::open(Some(path), title)?;
        Ok(SharedTrace(Arc::new(Mutex::new(Some(trace)))))
    }

    /// Makes sure that everything is in the file; nothing more is written.
    pub fn finish(self) -> Outcome {
        let trace = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        trace.map_or(Ok(()), Trace::finish)
    }
}

impl Observer for SharedTrace {
    fn record(&mut self, record: &Record<'_>) {
        let mut trace = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = &mut *trace {
            trace.observer().record(record);
        }
    }
}
