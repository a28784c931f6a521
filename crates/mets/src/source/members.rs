use std::collections::BTreeMap;

use layercast_core::{FlowId, Level, Span, Time};
use layercast_wire::{Member, MemberReport, MemberStats};

/// What the source knows of its receivers: soft state, kept alive by their reports.
#[derive(Debug)]
pub(super) struct Members {
    known: BTreeMap<Member, State>,
    max: usize,
    period: Span,
}

#[derive(Clone, Copy, Debug)]
struct State {
    joined: Time,
    level: Level,
    /// The level it selected when it joined.
    wanted: Level,
    heard: Time,
    stale: bool,
    /// Its last report, and when that came.
    report: Option<(Time, MemberReport)>,
}

/// Reports a member may miss before it is stale.
const MISSED_REPORTS: u64 = 3;

/// There are as many members as there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Full;

impl Members {
    pub fn new(max: u32, period: Span) -> Members {
        Members {
            known: BTreeMap::new(),
            max: max as usize,
            period,
        }
    }

    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Frames that members reported late.
    pub fn late(&self) -> u64 {
        let reports = self.known.values().filter_map(|state| state.report);
        reports.map(|(_, report)| report.late).sum()
    }

    /// The member that takes the least throughput, of those that are not silent and take less than all; with its most, in bit/s.
    pub fn slowest(&self) -> Option<(&Member, u64)> {
        let fresh = self.known.iter().filter(|(_, state)| !state.stale);
        let limits = fresh.filter_map(|(member, state)| Some((member, state.report?.1.most_bps?)));
        limits.min_by_key(|&(_, most)| most)
    }

    /// Changes how often members report.
    pub fn set_period(&mut self, period: Span) {
        self.period = period;
    }

    /// A member joins or refreshes its join; gives whether it is new.
    pub fn join(&mut self, now: Time, member: &Member, level: Level) -> Result<bool, Full> {
        let new = self.hear(now, member)?;
        if let Some(state) = self.known.get_mut(member) {
            state.wanted = level;
        }
        Ok(new)
    }

    /// A member reports; gives whether it is new.
    pub fn report(
        &mut self,
        now: Time,
        member: &Member,
        report: MemberReport,
    ) -> Result<bool, Full> {
        let new = self.hear(now, member)?;
        if let Some(state) = self.known.get_mut(member) {
            state.level = report.level;
            state.wanted = report.selected(state.wanted);
            state.report = Some((now, report));
        }
        Ok(new)
    }

    /// A member leaves; gives whether it was known.
    pub fn leave(&mut self, member: &Member) -> bool {
        self.known.remove(member).is_some()
    }

    /// Marks the next member that missed too many reports, and gives it.
    pub fn next_stale(&mut self, now: Time) -> Option<Member> {
        let limit = self.limit();
        let (member, state) = self
            .known
            .iter_mut()
            .find(|(_, state)| !state.stale && now >= state.heard.saturating_add(limit))?;
        state.stale = true;
        Some(member.clone())
    }

    pub fn stats(&self, now: Time, flow: FlowId, node: &str, born: Time) -> Vec<MemberStats> {
        self.known
            .iter()
            .map(|(member, state)| MemberStats {
                member: member.clone(),
                flow,
                node: node.into(),
                joined_at_ms: state.joined.since(born).as_ms(),
                level: state.level,
                wanted: state.wanted,
                report: state.report.map(|it| it.1),
                report_age_ms: state.report.map(|it| now.since(it.0).as_ms()),
                limit: None,
                upstream: None,
                next: None,
                gone: false,
                refused: None,
            })
            .collect()
    }

    pub fn contains(&self, member: &Member) -> bool {
        self.known.contains_key(member)
    }

    /// A member says something; gives whether it is new.
    pub fn hear(&mut self, now: Time, member: &Member) -> Result<bool, Full> {
        if let Some(state) = self.known.get_mut(member) {
            state.heard = now;
            state.stale = false;
            return Ok(false);
        }
        if self.known.len() >= self.max {
            // One that went silent makes room.
            let gone = self.known.iter().find(|(_, state)| state.stale);
            let gone = gone.map(|(member, _)| member.clone()).ok_or(Full)?;
            self.known.remove(&gone);
        }
        let state = State {
            joined: now,
            level: Level::BASE,
            wanted: Level::BASE,
            heard: now,
            stale: false,
            report: None,
        };
        self.known.insert(member.clone(), state);
        Ok(true)
    }

    fn limit(&self) -> Span {
        self.period.times(MISSED_REPORTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layercast_core::NodeId;

    fn member(n: u32) -> Member {
        Member {
            name: format!("m{n}"),
            id: NodeId(n),
        }
    }

    fn at(s: u64) -> Time {
        Time::ZERO + Span::from_secs(s)
    }

    #[test]
    fn a_member_that_misses_three_reports_is_stale_and_gives_way() {
        let mut members = Members::new(2, Span::from_secs(1));
        assert_eq!(members.join(at(0), &member(1), Level::E1), Ok(true));
        assert_eq!(members.join(at(0), &member(2), Level::E1), Ok(true));
        assert_eq!(members.join(at(0), &member(3), Level::E1), Err(Full));
        assert_eq!(
            members.report(at(2), &member(2), MemberReport::default()),
            Ok(false)
        );
        assert_eq!(members.next_stale(at(2)), None);
        assert_eq!(members.next_stale(at(3)), Some(member(1)));
        assert_eq!(members.next_stale(at(3)), None);
        assert_eq!(members.join(at(3), &member(3), Level::E1), Ok(true));
        assert!(!members.leave(&member(1)));
        assert_eq!(members.len(), 2);
    }

    #[test]
    fn a_stale_member_that_reports_again_is_fresh() {
        let mut members = Members::new(2, Span::from_secs(1));
        members.join(at(0), &member(1), Level::E1).unwrap();
        assert!(members.next_stale(at(3)).is_some());
        assert_eq!(members.next_stale(at(9)), None);
        members
            .report(at(4), &member(1), MemberReport::default())
            .unwrap();
        assert!(members.next_stale(at(7)).is_some());
    }

    #[test]
    fn what_a_member_selected_is_told_apart_from_what_it_has() {
        let mut members = Members::new(2, Span::from_secs(1));
        // A switch that knows a limit of the path asks for less.
        members.join(at(0), &member(1), Level::BASE).unwrap();
        let mut shown = |level, wanted| {
            let report = MemberReport {
                level,
                wanted,
                ..MemberReport::default()
            };
            members.report(at(1), &member(1), report).unwrap();
            let stats = members.stats(at(1), FlowId(1), "source", at(0));
            (stats[0].level, stats[0].wanted)
        };
        let (low, all) = (Level::BASE, Level::FULL);
        assert_eq!(shown(low, Some(all)), (low, all));
        assert_eq!(shown(low, Some(Level::E1)), (low, Level::E1));
        // One of a version that does not tell.
        assert_eq!(shown(low, None), (low, Level::E1));
    }
}
