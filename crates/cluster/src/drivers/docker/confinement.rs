//! By what engines confine containers beyond their capabilities, and what of it nodes cannot bear.

/// Where there is AppArmor, its profile for containers forbids to mount whatever the capabilities.
const NO_PROFILE: &str = "apparmor=unconfined";

/// SELinux's label for containers (`container_t`) may lack rights, such as to mount or to load modules. Asked
/// for everywhere: Podman 4.3 does not say that it has SELinux, and engines without it ignore this.
const NO_LABEL: &str = "label=disable";

pub(super) fn security_options(may_mount: bool) -> Vec<String> {
    let profile = may_mount.then_some(NO_PROFILE);
    [NO_LABEL].into_iter().chain(profile).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_container_goes_without_a_label_and_only_nodes_that_mount_without_a_profile() {
        assert_eq!(security_options(false), ["label=disable"]);
        assert_eq!(security_options(true), ["label=disable", "apparmor=unconfined"]);
    }
}
