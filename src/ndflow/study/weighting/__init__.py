"""The weights of scans in the references of a study, so that covariates are alike at all sites."""
