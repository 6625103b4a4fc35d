//! Refuses lists of names in options that have one twice: the second would say nothing, or contradict.

use crate::settings::names::BadUsage;
use crate::settings::options::RunOptions;
use fencepost_history::printable;
use fencepost_history::prose::second_of_a_name;

/// Refuses a list that names something twice. Errors: names the option and the name.
pub fn check_once<N: AsRef<str>>(option: &str, names: &[N]) -> Result<(), BadUsage> {
    match second_of_a_name(names) {
        Some(at) => {
            let sentence = format!("{option} names {} twice; name it once", printable(names[at].as_ref()));
            Err(BadUsage { key: option.strip_prefix("--").map(str::to_owned), sentence })
        }
        None => Ok(()),
    }
}

impl RunOptions {
    /// Refuses names that stand twice in a list of a run's options; nemeses are checked elsewhere.
    pub(crate) fn check_lists(&self) -> Result<(), BadUsage> {
        let options: Vec<&str> =
            self.option.iter().map(|option| option.split('=').next().unwrap_or_default()).collect();
        let points: Vec<&str> = self.pause_at.iter().map(|pause| pause.point.as_str()).collect();
        check_once("--option", &options)?;
        check_once("--client-packages", &self.client_packages)?;
        check_once("--pause-at", &points)?;
        check_once("--cancel", &self.cancel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_each_thing_once() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<String>>();
        let refused = |options: RunOptions| options.check_lists().unwrap_err().sentence;
        let option = RunOptions { option: texts(&["a=1", "b=1", "a=2"]), ..RunOptions::default() };
        assert_eq!(refused(option), "--option names a twice; name it once");
        let packages =
            RunOptions { client_packages: vec!["python3".to_owned(); 100_000], ..RunOptions::default() };
        assert_eq!(refused(packages), "--client-packages names python3 twice; name it once");
        let pause = "before-replies=5ms".parse::<fencepost_locks::PauseAt>().unwrap();
        let points = RunOptions { pause_at: vec![pause.clone(), pause], ..RunOptions::default() };
        assert_eq!(refused(points), "--pause-at names before-replies twice; name it once");
        let right = RunOptions { option: texts(&["a=1", "b=1"]), ..RunOptions::default() };
        assert!(right.check_lists().is_ok());
    }
}
