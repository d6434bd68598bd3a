"""What a release needs: one version, distributions that are checked, known licences."""
