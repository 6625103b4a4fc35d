//! What a hunt, or its part, keeps for a merge. Its findings are in its `hunt.json`.

use super::folder::HuntFolder;
use super::request::HuntRequest;
use anyhow::Result;
use fencepost_campaign::parts::{CampaignKind, PartFile, PartWriter, RunKey, assign};
use fencepost_history::Shard;

impl HuntFolder {
    pub fn begin_part(&self, request: &HuntRequest) -> Result<PartWriter> {
        let shard = request.shard.unwrap_or(Shard::WHOLE);
        let parts = vec![Some(1); shard.of().get() as usize];
        // The command of the whole: a part's says which part it is.
        let command = request.command.replace(&format!(" --shard {shard}"), "");
        let mut file = PartFile::begun(
            CampaignKind::Hunt,
            command,
            request.seed,
            shard,
            &assign(&parts, shard.of()),
            serde_json::to_value(request.common())?,
        );
        file.parts.values_mut().for_each(|part| part.runs_in = vec![".".into()]);
        let label = format!("the schedules {}, and every {}th from there on", shard.number(), shard.of());
        let key = RunKey { number: u64::from(shard.number()) - 1, label, name: "hunt".to_owned() };
        PartWriter::begin_without_records(&self.path, file, [&key].into_iter())
    }
}
