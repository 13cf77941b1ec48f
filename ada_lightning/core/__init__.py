"""What adaptive sampling is made of: records, contracts, stopping rules, seeds. Imports no other package of ours."""
