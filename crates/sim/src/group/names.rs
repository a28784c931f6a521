//! What machines are called in traces: as the branches at whose ends they are, with a number.

use layercast_core::Observer;

use super::world::Simulation;

impl Simulation<'_> {
    /// Names the machines, if anybody looks.
    pub(super) fn name_all(&mut self) {
        if !self.obs.enabled() {
            return;
        }
        for member in 0..self.members.len() as u32 {
            self.name_member(member);
        }
        for (number, speaker) in self.speakers.iter_mut().enumerate() {
            let kind = self.tree.nodes[speaker.node as usize].kind as usize;
            let branch = &self.group.branches[kind].name;
            speaker.machine.set_name(&format!("{branch}.{number}"));
        }
    }

    /// Names a receiver that begins a life, if anybody looks.
    pub(super) fn name_member(&mut self, member: u32) {
        if !self.obs.enabled() {
            return;
        }
        let it = &mut self.members[member as usize];
        if let Some(machine) = &mut it.machine {
            let kind = self.tree.nodes[it.node as usize].kind as usize;
            let branch = &self.group.branches[kind].name;
            machine.set_name(&format!("{branch}.{member}"));
        }
    }
}
