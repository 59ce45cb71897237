"""German credit: the UCI description's column names and codes, in words.

The words follow the description that the published evaluation used. Grömping (2019), *South German
Credit Data: Correcting a Widely Used Data Set*, shows that this description is wrong in places: among
others, code A92 also covers single men, and the two values of foreign_worker are swapped. Read a verdict
about `sex` or `foreign_worker` on this set as one about the published benchmark, not about the applicants.
"""

from __future__ import annotations

from collections.abc import Mapping

HEADER: tuple[str, ...] = (
    "status",
    "duration",
    "credit_history",
    "purpose",
    "amount",
    "savings",
    "employment",
    "installment_rate",
    "personal_status",
    "other_debtors",
    "residence_since",
    "property",
    "age",
    "other_plans",
    "housing",
    "existing_credits",
    "job",
    "dependents",
    "telephone",
    "foreign_worker",
    "class",
)

WORDS: Mapping[str, Mapping[str, str]] = {
    "status": {
        "A11": "below 0 DM",
        "A12": "0 to below 200 DM",
        "A13": "200 DM or more, or salary paid in for a year",
        "A14": "no checking account",
    },
    "credit_history": {
        "A30": "no credits, or all paid back",
        "A31": "all credits at this bank paid back",
        "A32": "existing credits paid so far",
        "A33": "delays in the past",
        "A34": "critical account, or credits elsewhere",
    },
    "purpose": {
        "A40": "new car",
        "A41": "used car",
        "A42": "furniture or equipment",
        "A43": "radio or television",
        "A44": "domestic appliances",
        "A45": "repairs",
        "A46": "education",
        "A47": "vacation",
        "A48": "retraining",
        "A49": "business",
        "A410": "other",
    },
    "savings": {
        "A61": "below 100 DM",
        "A62": "100 to below 500 DM",
        "A63": "500 to below 1000 DM",
        "A64": "1000 DM or more",
        "A65": "none known",
    },
    "employment": {
        "A71": "unemployed",
        "A72": "below 1 year",
        "A73": "1 to below 4 years",
        "A74": "4 to below 7 years",
        "A75": "7 years or more",
    },
    "personal_status": {
        "A91": "male",
        "A92": "female",
        "A93": "male",
        "A94": "male",
        "A95": "female",
    },
    "other_debtors": {
        "A101": "none",
        "A102": "co-applicant",
        "A103": "guarantor",
    },
    "property": {
        "A121": "real estate",
        "A122": "building society savings or life insurance",
        "A123": "car or other",
        "A124": "none known",
    },
    "other_plans": {
        "A141": "bank",
        "A142": "stores",
        "A143": "none",
    },
    "housing": {
        "A151": "rent",
        "A152": "own",
        "A153": "for free",
    },
    "job": {
        "A171": "unemployed or unskilled, non-resident",
        "A172": "unskilled, resident",
        "A173": "skilled or official",
        "A174": "management, self-employed or highly qualified",
    },
    "telephone": {
        "A191": "none",
        "A192": "yes, under the customer's name",
    },
    "foreign_worker": {
        "A201": "yes",
        "A202": "no",
    },
}
