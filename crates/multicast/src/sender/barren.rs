use super::*;

/// Successive passes without any arrival, and their packets, after which a path is taken to drop packets of this
/// size: random loss is not that frequent.
const PASSES: u16 = 2;
const PACKETS: u64 = 200;

impl<S: Source> Sender<S> {
    /// Finds receivers that answer, with short packets, but receive no data: a path that drops large packets silently
    /// would waste each pass (RFC 4821, 1.1). They fail; returns `true` if that ended the session.
    pub(super) fn barren(&mut self) -> bool {
        let (sync, packets) = (self.round.sync, self.round.packets);
        if self.stream.is_some() || packets == 0 || self.round.ask != Ask::Everyone {
            return false;
        }
        let unasked = matches!(
            self.config.schedule,
            Schedule::BackOff { unasked: true, .. }
        );
        let mut found = Vec::new();
        let mut others = 0;
        for at in 0..self.roster.len() {
            if !self.in_scope(at) {
                others += u32::from(matches!(
                    self.roster.get(at).status,
                    Status::Done
                        | Status::Released
                        | Status::Joined
                        | Status::Postponed
                        | Status::Busy
                ));
                continue;
            }
            let record = self.roster.get_mut(at);
            if record.answered != sync || record.weight != 1 {
                others += 1;
                continue;
            }
            // Polled receivers count arrivals as well: of a large object they report one part at a time.
            let counted = unasked || record.loss == u16::MAX;
            let nothing_came = counted && record.received >= record.lacked && record.received > 0;
            record.barren = match (nothing_came, record.barren) {
                (true, (passes, sent)) => (passes.saturating_add(1), sent + packets),
                (false, _) => (0, 0),
            };
            record.lacked = record.received;
            if record.barren.0 >= PASSES && record.barren.1 >= PACKETS {
                found.push(at);
            } else {
                others += 1;
            }
        }
        if found.is_empty() {
            return false;
        }
        if others == 0 {
            let failure = Failure::Mtu(self.config.packet_size);
            self.give_up(Reason::Mtu, failure);
            return true;
        }
        for at in found {
            self.expel(at, Reason::Mtu);
            if self.phase == Phase::Closed {
                return true;
            }
        }
        false
    }

    /// Informs a member that it was removed, and why.
    fn expel(&mut self, at: usize, reason: Reason) {
        let record = self.roster.get(at);
        let (member, peer) = (record.id, record.peer);
        if let Some(peer) = peer {
            let eject = layercast_wire::multicast::Eject {
                member,
                reason,
                upto: 0,
            };
            self.send(To::One(peer), Body::Eject(eject));
        }
        self.lose(at, reason);
    }
}
