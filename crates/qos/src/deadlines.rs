/// Deadlines met and missed, in windows of a fixed number of frames (specs/mets.md 2.4).
#[derive(Clone, Copy, Debug)]
pub struct DeadlineWindow {
    window: u32,
    seen: u32,
    missed: u32,
    total: u64,
}

impl DeadlineWindow {
    /// A window of `window` deadlines.
    pub fn new(window: u32) -> DeadlineWindow {
        DeadlineWindow {
            window: window.max(1),
            seen: 0,
            missed: 0,
            total: 0,
        }
    }

    /// One more deadline; at the end of a window the number of those missed in it.
    pub fn record(&mut self, missed: bool) -> Option<u32> {
        self.seen += 1;
        self.missed += u32::from(missed);
        self.total += u64::from(missed);
        debug_assert!(self.missed <= self.seen && self.seen <= self.window);
        if self.seen < self.window {
            return None;
        }
        self.seen = 0;
        Some(std::mem::take(&mut self.missed))
    }

    /// Deadlines in a window.
    pub fn length(&self) -> u32 {
        self.window
    }

    /// Deadlines missed since the start.
    pub fn total(&self) -> u64 {
        self.total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_counts_its_own_misses() {
        let mut window = DeadlineWindow::new(3);
        let records = [true, false, true, false, false, true, true].map(|m| window.record(m));
        let ends: Vec<u32> = records.into_iter().flatten().collect();
        assert_eq!(ends, [2, 1]);
        assert_eq!(window.total(), 4);
    }
}
